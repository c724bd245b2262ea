{{/* "true" if the sidecar is an init container that Kubernetes keeps running (KEP-753). */}}
{{- define "sluice.sidecar.isNative" -}}
{{- $asked := .values.nativeSidecar | toString -}}
{{- if eq $asked "auto" -}}
{{- if semverCompare ">=1.29.0-0" .root.Capabilities.KubeVersion.Version }}true{{ end -}}
{{- else if eq $asked "true" -}}true{{- end -}}
{{- end }}

{{/* For `initContainers:`. Empty if the sidecar is a plain container. */}}
{{- define "sluice.sidecar.initContainers" -}}
{{- if include "sluice.sidecar.isNative" . -}}
- {{ include "sluice.container" . | nindent 2 | trim }}
  restartPolicy: Always
{{- end -}}
{{- end }}

{{/* For `containers:`. Empty if the sidecar is native. */}}
{{- define "sluice.sidecar.containers" -}}
{{- if not (include "sluice.sidecar.isNative" .) -}}
- {{ include "sluice.container" . | nindent 2 | trim }}
{{- end -}}
{{- end }}
