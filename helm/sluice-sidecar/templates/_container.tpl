{{/*
The body of the container, without the dash of a list. Beside root and values it takes, from a chart that adds its own:
"ports", "env", "volumeMounts" (lists) and "lifecycle" (an object).
*/}}
{{- define "sluice.container" -}}
name: sluice
image: {{ include "sluice.image" . | quote }}
imagePullPolicy: {{ .values.image.pullPolicy }}
args: [run, --config, /etc/sluice/config/sluice.yaml]
env:
  - name: SLUICE_MEMORY_LIMIT_BYTES
    valueFrom:
      resourceFieldRef:
        containerName: sluice
        resource: limits.memory
        divisor: "1"
  {{- with concat (.env | default list) (.values.extraEnv | default list) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - name: sluice-admin
    containerPort: {{ include "sluice.adminPort" . }}
    protocol: TCP
  {{- with .ports }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- range $name, $path := dict "startupProbe" "startup" "livenessProbe" "live" "readinessProbe" "ready" }}
{{ $name }}:
  httpGet:
    path: /{{ $path }}
    port: sluice-admin
  {{- with get $.values.probes (trimSuffix "Probe" $name) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with .lifecycle }}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
terminationMessagePolicy: FallbackToLogsOnError
volumeMounts:
  - name: sluice-config
    mountPath: /etc/sluice/config
    readOnly: true
  - name: sluice-tmp
    mountPath: /tmp
  {{- range $name := keys (.values.secrets | default dict) | sortAlpha }}
  - name: sluice-secret-{{ $name }}
    mountPath: /etc/sluice/secrets/{{ $name }}
    readOnly: true
  {{- end }}
  {{- with concat (.volumeMounts | default list) (.values.extraVolumeMounts | default list) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The volumes of the pod. /tmp holds the admin socket only: `kubectl exec POD -c sluice -- sluice ctl status`. */}}
{{- define "sluice.volumes" -}}
- name: sluice-config
  configMap:
    name: {{ include "sluice.fullname" . }}
- name: sluice-tmp
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
{{- range $name, $secret := .values.secrets }}
- name: sluice-secret-{{ $name }}
  secret:
    secretName: {{ $secret }}
    defaultMode: {{ $.values.secretsMode }}
{{- end }}
{{- with .values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sluice.podSecurityContext" -}}
{{- with .values.podSecurityContext }}{{ toYaml . }}{{ end -}}
{{- end }}
