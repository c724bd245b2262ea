{{/*
Every template takes (dict "root" $ "values" <the values of Sluice>).
*/}}

{{- define "sluice.name" -}}
{{- .values.nameOverride | default "sluice" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The release's name alone if it is that of Sluice, else both. */}}
{{- define "sluice.fullname" -}}
{{- $name := include "sluice.name" . -}}
{{- $release := .root.Release.Name -}}
{{- .values.fullnameOverride | default (eq $release $name | ternary $name (printf "%s-%s" $release $name)) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "sluice.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sluice.name" . }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- end }}

{{- define "sluice.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "sluice.selectorLabels" . }}
app.kubernetes.io/version: {{ .values.image.tag | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sluice.image" -}}
{{- with .values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end -}}
{{- end -}}
{{- end }}
