{{/*
Puts "values" into the given (dict "root" $): the values of the chart with what the chart itself adds to them. All other
templates of this chart and of the library take the result. Also "nodes": a list of the broker ids that have a port.
*/}}
{{- define "sluice.gateway" -}}
{{- $values := deepCopy .root.Values -}}
{{- $_ := set . "values" $values -}}
{{- $config := $values.config -}}
{{- $listen := deepCopy ($config.listen | default dict) -}}
{{- $_ := set $config "listen" $listen -}}
{{- if not $listen.advertised_host -}}
{{- $_ := set $listen "advertised_host" (include "sluice.gateway.host" .) -}}
{{- end -}}
{{- if $values.certificate.enabled -}}
{{- $_ := set $values "secrets" (merge (dict "tls" (include "sluice.gateway.certificateSecret" .)) ($values.secrets | default dict)) -}}
{{- if not $listen.tls -}}
{{- $_ := set $listen "tls" (dict "cert_file" "/etc/sluice/secrets/tls/tls.crt" "key_file" "/etc/sluice/secrets/tls/tls.key") -}}
{{- end -}}
{{- end -}}
{{- $usage := deepCopy ($config.usage_log | default dict) -}}
{{- if and (ne $values.usageLogVolume.kind "none") (not $usage.directory) -}}
{{- $_ := set $config "usage_log" (set $usage "directory" "/var/lib/sluice/usage") -}}
{{- end -}}
{{- $replicas := int (include "sluice.gateway.maxReplicas" .) -}}
{{- range $config.policies -}}
{{- if and (eq .use "quota") (gt $replicas 1) -}}
{{- $_ := set . "config" (merge (.config | default dict) (dict "replicas" $replicas)) -}}
{{- end -}}
{{- end -}}
{{- $_ := set . "nodes" (include "sluice.gateway.nodes" $listen | splitList "\n" | compact) -}}
{{- end }}

{{/* The most pods that there can be. */}}
{{- define "sluice.gateway.maxReplicas" -}}
{{- with .values -}}
{{- if .autoscaling.enabled }}{{ int .autoscaling.maxReplicas }}{{ else }}{{ int .replicas }}{{ end -}}
{{- end -}}
{{- end }}

{{/* The DNS name of the Service. */}}
{{- define "sluice.gateway.host" -}}
{{- printf "%s.%s.svc" (include "sluice.fullname" .) .root.Release.Namespace }}{{ with .values.clusterDomain }}.{{ . }}{{ end -}}
{{- end }}

{{/* The bootstrap port. */}}
{{- define "sluice.gateway.port" -}}
{{- int (.values.config.listen.port | default 19092) -}}
{{- end }}

{{/* "true" if one port serves all brokers, and the name in the TLS handshake selects one. */}}
{{- define "sluice.gateway.servesBySni" -}}
{{- if dig "sni_pattern" "" (.values.config.listen.tls | default dict) }}true{{ end -}}
{{- end }}

{{/* The broker ids of `listen`, one a line, in the order of their ports. */}}
{{- define "sluice.gateway.nodes" -}}
{{- $text := .nodes | default "0-31" -}}
{{- if not (kindIs "string" $text) }}{{ $text = $text | int64 | toString }}{{ end -}}
{{- range splitList "," $text -}}
{{- $ends := splitList "-" (trim .) -}}
{{- $first := first $ends | int64 -}}
{{- $last := last $ends | int64 -}}
{{- if or (lt $last $first) (gt (sub $last $first) 999) -}}
{{- fail (printf "config.listen.nodes: found %q, expected ranges that ascend and have 1000 nodes at most" $text) -}}
{{- end -}}
{{- range untilStep (int $first) (int (add1 $last)) 1 }}
{{ . }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The ports of the Service, as a list: the bootstrap port, and one for each broker unless SNI selects it. */}}
{{- define "sluice.gateway.servicePorts" -}}
{{- $port := int (include "sluice.gateway.port" .) -}}
{{- $isNodePort := eq .values.service.type "NodePort" -}}
{{- $names := list "kafka" -}}
{{- if not (include "sluice.gateway.servesBySni" .) -}}
{{- range .nodes }}{{ $names = append $names (printf "node-%s" .) }}{{ end -}}
{{- end -}}
{{- range $place, $name := $names }}
{{- $here := add $port $place }}
- name: {{ $name }}
  port: {{ $here }}
  targetPort: {{ $here }}
  protocol: TCP
  appProtocol: tcp
  {{- if $isNodePort }}
  nodePort: {{ $here }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The last port that clients connect to. */}}
{{- define "sluice.gateway.lastPort" -}}
{{- $port := int (include "sluice.gateway.port" .) -}}
{{- if include "sluice.gateway.servesBySni" . }}{{ $port }}{{ else }}{{ add $port (len .nodes) }}{{ end -}}
{{- end }}

{{/* Policies called `quota`, as text; empty without one. */}}
{{- define "sluice.gateway.quotas" -}}
{{- range .values.config.policies }}{{ if eq .use "quota" }}{{ .name | default "quota" }} {{ end }}{{ end -}}
{{- end }}

{{/*
The settings that need a restart, as a checksum: the pods are rolled when one of them changes, and only then. The others
are LIVE_SETTINGS of proxy/dynamic_config.py.
*/}}
{{- define "sluice.gateway.restartChecksum" -}}
{{- $config := omit .values.config "policies" "policies_path" "limits" "purgatory" "drain" -}}
{{- range $section, $keys := dict "memory" (list "queued_max_request_bytes" "queued_max_response_bytes" "upstream_announced_max_bytes") "traces" (list "slow_ms" "sample_every_requests" "max_spans_per_second") "log" (list "level") -}}
{{- with get $config $section -}}
{{- $kept := deepCopy . -}}
{{- range $keys }}{{ $_ := unset $kept . }}{{ end -}}
{{- $_ := set $config $section $kept -}}
{{- end -}}
{{- end -}}
{{- toYaml $config | sha256sum -}}
{{- end }}
