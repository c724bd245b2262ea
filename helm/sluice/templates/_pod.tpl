{{/*
The pod keeps serving while it is taken out of the Service. Kubernetes sleeps by itself from 1.30 on; before, a command
does, and the image has no shell.
*/}}
{{- define "sluice.gateway.lifecycle" -}}
{{- $seconds := int .values.drain.preStopSleepSeconds -}}
{{- if gt $seconds 0 -}}
preStop:
  {{- if semverCompare ">=1.30.0-0" (include "sluice.gateway.kubeVersion" .) }}
  sleep:
    seconds: {{ $seconds }}
  {{- else }}
  exec:
    command: [python3, -c, "import time; time.sleep({{ $seconds }})"]
  {{- end }}
{{- end -}}
{{- end }}

{{/* An entry of `volumes`, or nothing: a StatefulSet makes that of a claim by itself. */}}
{{- define "sluice.gateway.usageLogVolume" -}}
{{- with .values.usageLogVolume -}}
{{- if eq .kind "emptyDir" -}}
- name: usage-log
  emptyDir:
    sizeLimit: {{ .size }}
{{- else if eq .kind "existingClaim" -}}
- name: usage-log
  persistentVolumeClaim:
    claimName: {{ .existingClaim | quote }}
{{- end -}}
{{- end -}}
{{- end }}
