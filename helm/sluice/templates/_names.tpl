{{/* (list NAME MAX): the name, cut to MAX characters; a cut name ends with a hash, so that two stay different. */}}
{{- define "sluice.gateway.fit" -}}
{{- $name := first . -}}
{{- $most := last . -}}
{{- if le (len $name) $most }}{{ $name }}{{ else }}{{ printf "%s-%s" (trunc (int (sub $most 9)) $name | trimSuffix "-") (sha256sum $name | trunc 8) }}{{ end -}}
{{- end }}

{{/*
The name of the Deployment or StatefulSet. Kubernetes appends a hash of 10 characters to that of a StatefulSet and puts
it into a label, which has 63 at most.
*/}}
{{- define "sluice.gateway.workload" -}}
{{- include "sluice.gateway.fit" (list (include "sluice.fullname" .) (eq .values.kind "StatefulSet" | ternary 52 63)) -}}
{{- end }}

{{/* (dict "g" . "suffix" TEXT): the release's full name with a suffix. */}}
{{- define "sluice.gateway.suffixed" -}}
{{- include "sluice.gateway.fit" (list (printf "%s-%s" (include "sluice.fullname" .g) .suffix) 63) -}}
{{- end }}

{{- define "sluice.gateway.headless" -}}
{{- include "sluice.gateway.suffixed" (dict "g" . "suffix" "pods") -}}
{{- end }}

{{- define "sluice.gateway.certificateSecret" -}}
{{- include "sluice.gateway.suffixed" (dict "g" . "suffix" "tls") -}}
{{- end }}

{{- define "sluice.gateway.serviceAccount" -}}
{{- $own := .values.serviceAccount.create | ternary (include "sluice.fullname" .) "default" -}}
{{- .values.serviceAccount.name | default $own -}}
{{- end }}

{{/* Never changed by an upgrade. The component keeps the pod of `helm test` out of the Service. */}}
{{- define "sluice.gateway.selectorLabels" -}}
{{ include "sluice.selectorLabels" . }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "sluice.gateway.labels" -}}
{{ include "sluice.labels" . }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "sluice.gateway.kubeVersion" -}}
{{- .values.kubeVersion | default .root.Capabilities.KubeVersion.Version -}}
{{- end }}

{{/* The names that clients connect to, one a line: a wildcard for the brokers if their id is all of the first label. */}}
{{- define "sluice.gateway.dnsNames" -}}
{{- $listen := .values.config.listen -}}
{{ $listen.advertised_host }}
{{ include "sluice.gateway.host" . }}
{{- with dig "sni_pattern" "" $listen.tls }}
{{- $pattern := lower . }}
{{- $labels := splitList "." $pattern }}
{{- if contains "$(node)" (first $labels) }}
*.{{ rest $labels | join "." }}
{{- else }}
{{- range $.nodes }}
{{ $pattern | replace "$(node)" . }}
{{- end }}
{{- end }}
{{- end }}
{{- range .values.certificate.dnsNames }}
{{ . }}
{{- end }}
{{- end }}
