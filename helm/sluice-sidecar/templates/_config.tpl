{{/* The configuration file of Sluice, as text. */}}
{{- define "sluice.config" -}}
{{- if and (not .values.quotasFile) (contains "/etc/sluice/config/quotas.yaml" (toYaml .values.config)) -}}
{{- fail "quotasFile: found nothing, expected the text of a quota file, because config uses /etc/sluice/config/quotas.yaml" -}}
{{- end -}}
{{- toYaml .values.config }}
{{- end }}

{{- define "sluice.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "sluice.fullname" . }}
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
data:
  sluice.yaml: |
    {{- include "sluice.config" . | nindent 4 }}
{{- with .values.quotasFile }}
  quotas.yaml: |
    {{- . | nindent 4 }}
{{- end }}
{{- end }}

{{/* Annotations of the pod: empty unless a changed configuration shall roll it out. */}}
{{- define "sluice.podAnnotations" -}}
{{- if .values.rolloutOnConfigChange -}}
checksum/sluice-config: {{ printf "%s%s" (include "sluice.config" .) .values.quotasFile | sha256sum }}
{{- end -}}
{{- end }}

{{/* The port of the probes, from `admin.listen`. */}}
{{- define "sluice.adminPort" -}}
{{- $listen := dig "admin" "listen" "" .values.config -}}
{{- if or (not $listen) (regexMatch "^(127\\.|localhost:|\\[::1\\])" $listen) -}}
{{- fail (printf "config.admin.listen is %q: Kubernetes probes the address of the pod, so 0.0.0.0:PORT is expected" $listen) -}}
{{- end -}}
{{- regexFind "[0-9]+$" $listen -}}
{{- end }}

{{/* One entry of `env` for the application's containers. */}}
{{- define "sluice.bootstrapEnv" -}}
{{- $listen := .values.config.listen | default dict -}}
{{- $host := $listen.advertised_host | default $listen.address | default "127.0.0.1" -}}
{{- if has $host (list "0.0.0.0" "::") -}}
{{- fail (printf "config.listen.advertised_host is empty: a host that clients can connect to is expected, because address is %s" $host) -}}
{{- end -}}
- name: {{ .values.bootstrapEnvName }}
  value: {{ printf "%s:%d" (contains ":" $host | ternary (printf "[%s]" $host) $host) (int ($listen.port | default 19092)) | quote }}
{{- end }}
