{{/* Parts of network policies that a mesh needs; call with .Values.networkPolicy. */}}

{{/* Ambient pods send each other everything to the port of their tunnel. */}}
{{- define "shadowprice.hbone" -}}
{{- if eq .mesh "ambient" -}}
- {port: 15008, protocol: TCP}
{{- end -}}
{{- end }}

{{/* Probes come from the node, which policies do not bind; ambient's come from addresses of their own. */}}
{{- define "shadowprice.probes" -}}
# Probes come from the node, which policies do not bind.
{{- if eq .mesh "ambient" }} Ambient gives them these addresses.
- ports:
    - {port: 8090, protocol: TCP}
  from:
    - ipBlock: {cidr: 169.254.7.127/32}
    - ipBlock: {cidr: "fd16:9254:7127:1337:ffff:ffff:ffff:ffff/128"}
{{- end }}
{{- end }}

{{/* Names, and the control plane that a sidecar gets its certificate and its configuration from. */}}
{{- define "shadowprice.egress" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- if eq .mesh "sidecar" }}
- ports:
    - {port: 15012, protocol: TCP}
  to:
    - namespaceSelector:
        matchLabels:
          {{- toYaml .controlPlane | nindent 10 }}
{{- end }}
{{- end }}
