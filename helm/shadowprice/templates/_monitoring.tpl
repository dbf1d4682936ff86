{{/* Labels and values that tell the series of this release from those of others, as JSON. */}}
{{- define "shadowprice.selectors" -}}
{{- $found := deepCopy .Values.monitoring.selectors -}}
{{- if and (hasKey $found "namespace") (not $found.namespace) }}{{ $_ := set $found "namespace" .Release.Namespace }}{{ end -}}
{{- toJson $found -}}
{{- end }}

{{/* Labels of this release as name=value, which the re-solve takes. */}}
{{- define "shadowprice.ownLabels" -}}
{{- $found := list -}}
{{- range $label, $value := include "shadowprice.selectors" . | fromJson }}{{ $found = append $found (printf "%s=%s" $label $value) }}{{ end -}}
{{- join "," $found -}}
{{- end }}

{{/* Matchers of a campaign's series; call with (dict "root" $ "campaign" "spring"). */}}
{{- define "shadowprice.ownSeries" -}}
campaign={{ .campaign | quote }}
{{- range $label, $value := include "shadowprice.selectors" .root | fromJson }},{{ $label }}={{ $value | quote }}{{ end -}}
{{- end }}

{{/* Token and authority of Prometheus, from a secret; call with .Values.resolve. */}}
{{- define "shadowprice.prometheusEnv" -}}
{{- with .prometheus }}
{{- if and .existingSecret .tokenKey }}
- {name: SHADOWPRICE_PROMETHEUS_TOKEN_FILE, value: /etc/shadowprice/prometheus/token}
{{- end }}
{{- if and .existingSecret .caKey }}
- {name: SHADOWPRICE_PROMETHEUS_CA_FILE, value: /etc/shadowprice/prometheus/ca.crt}
{{- end }}
{{- end }}
{{- end }}
