{{/* Values that do not fit each other. Each message has the path, what was found and what is expected. */}}
{{- define "sluice.gateway.check" -}}
{{- $v := .values -}}
{{- with .values.autoscaling }}{{ if .enabled -}}
{{- if and (include "sluice.gateway.quotas" $) (not .acceptQuotasPerInstance) -}}
{{- fail (printf "autoscaling.enabled: found true with the quota policy %s; a quota applies to each pod by itself, so the sum would change with the number of pods. Set a fixed number of replicas, or autoscaling.acceptQuotasPerInstance: true" (include "sluice.gateway.quotas" $ | trim | quote)) -}}
{{- end -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas: found %d, expected at most autoscaling.maxReplicas (%d)" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- if not (dig "requests" "cpu" "" $v.resources) -}}
{{- fail "resources.requests.cpu: found nothing, expected a quantity, because autoscaling compares the use of CPU with it" -}}
{{- end -}}
{{- end }}{{ end -}}
{{- with $v.podDisruptionBudget -}}
{{- if and .enabled (not (kindIs "invalid" .maxUnavailable)) (not (kindIs "invalid" .minAvailable)) -}}
{{- fail (printf "podDisruptionBudget: found maxUnavailable (%v) and minAvailable (%v), expected one of them" .maxUnavailable .minAvailable) -}}
{{- end -}}
{{- end -}}
{{- if and $v.podMonitor.enabled $v.serviceMonitor.enabled -}}
{{- fail "serviceMonitor.enabled: found true with podMonitor.enabled, expected one of them: each pod would be scraped twice" -}}
{{- end -}}
{{- $drain := int (dig "drain" "timeout_ms" 10000 $v.config) -}}
{{- $least := add (mul 1000 (int $v.drain.preStopSleepSeconds)) $drain 2000 -}}
{{- if le (mul 1000 (int $v.terminationGracePeriodSeconds)) $least -}}
{{- fail (printf "terminationGracePeriodSeconds: found %d, expected more than %v: drain.preStopSleepSeconds (%d), config.drain.timeout_ms (%d) and 2 s to end" (int $v.terminationGracePeriodSeconds) (divf $least 1000) (int $v.drain.preStopSleepSeconds) $drain) -}}
{{- end -}}
{{- include "sluice.gateway.checkListen" . -}}
{{- include "sluice.gateway.checkVolumes" . -}}
{{- end }}

{{- define "sluice.gateway.checkListen" -}}
{{- $listen := .values.config.listen -}}
{{- if or (not $listen.address) (regexMatch "^(127\\.|localhost$|::1$)" $listen.address) -}}
{{- fail (printf "config.listen.address: found %q, expected 0.0.0.0 or ::, because clients connect to the address of the pod" ($listen.address | default "")) -}}
{{- end -}}
{{- if or (gt (len .nodes) 1000) (ne (len .nodes) (len (uniq .nodes))) -}}
{{- fail (printf "config.listen.nodes: found %q, expected each node once, and 1000 at most" $listen.nodes) -}}
{{- end -}}
{{- range list "type" "selector" "ports" "clusterIP" -}}
{{- if hasKey $.values.service.spec . -}}
{{- fail (printf "service.spec.%s: found a value, expected none, because the chart sets it" .) -}}
{{- end -}}
{{- end -}}
{{- if gt (int (include "sluice.gateway.lastPort" .)) 65535 -}}
{{- fail (printf "config.listen.port: found %s, expected at most %d, so that every node has a port" (include "sluice.gateway.port" .) (sub 65535 (len .nodes))) -}}
{{- end -}}
{{- if eq .values.service.type "NodePort" -}}
{{- if or (lt (int (include "sluice.gateway.port" .)) 30000) (gt (int (include "sluice.gateway.lastPort" .)) 32767) -}}
{{- fail (printf "config.listen.port: found ports %s..%s, expected 30000..32767, because service.type is NodePort and clients connect to the ports that Sluice advertises" (include "sluice.gateway.port" .) (include "sluice.gateway.lastPort" .)) -}}
{{- end -}}
{{- end -}}
{{- with .values.certificate }}{{ if .enabled -}}
{{- if not .issuerRef.name -}}
{{- fail "certificate.issuerRef.name: found nothing, expected the name of an Issuer or ClusterIssuer of cert-manager" -}}
{{- end -}}
{{- if not (hasPrefix "/etc/sluice/secrets/tls/" $listen.tls.cert_file) -}}
{{- fail (printf "config.listen.tls.cert_file: found %q, expected /etc/sluice/secrets/tls/tls.crt, because certificate.enabled is true" $listen.tls.cert_file) -}}
{{- end -}}
{{- end }}{{ end -}}
{{- end }}

{{- define "sluice.gateway.checkVolumes" -}}
{{- $secrets := .values.secrets -}}
{{- range regexFindAll "/etc/sluice/secrets/[^/\\s\"']+" (toYaml .values.config) -1 -}}
{{- if not (hasKey $secrets (base .)) -}}
{{- fail (printf "secrets: found no %q, expected the name of a Secret, because config uses %s" (base .) .) -}}
{{- end -}}
{{- end -}}
{{- with .values.usageLogVolume -}}
{{- if and (eq .kind "claim") (ne $.values.kind "StatefulSet") -}}
{{- fail (printf "usageLogVolume.kind: found \"claim\" with kind %s, expected kind StatefulSet: the pods of a Deployment have no volume of their own" $.values.kind) -}}
{{- end -}}
{{- if ne (eq .kind "existingClaim") (ne .existingClaim "") -}}
{{- fail (printf "usageLogVolume.existingClaim: found %q with kind %q, expected a name with kind \"existingClaim\" and only with it" .existingClaim .kind) -}}
{{- end -}}
{{- end -}}
{{- end }}
