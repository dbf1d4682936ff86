{{- define "shadowprice.labels" -}}
app.kubernetes.io/name: shadowprice
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: shadowprice
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels that select a role's pods; call with (dict "root" $ "role" "ledger"). */}}
{{- define "shadowprice.selector" -}}
app.kubernetes.io/name: shadowprice
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{/*
Labels and annotations of a role's pods: the chart's own labels, those of the values, and no sidecar of Istio's for what must end
and for Ray. Call with (dict "root" $ "role" "ray-head"), and "component" where pods of another role are selected with these.
*/}}
{{- define "shadowprice.podMetadata" -}}
{{- $ends := has .role (list "resolve" "watch" "promote" "decide" "portfolio" "schedule" "test" "ray-head" "ray-worker" "ray-submitter") -}}
{{- $calls := and (has .role (list "resolve" "decide" "portfolio" "test")) .root.Values.networkPolicy.identities.enabled -}}
{{- $own := include "shadowprice.selector" (dict "root" .root "role" (default .role .component)) | fromYaml -}}
{{- $common := hasPrefix "ray-" .role | ternary dict .root.Values.commonLabels -}}
{{- $mesh := $ends | ternary (dict "sidecar.istio.io/inject" (toString $calls)) dict -}}
labels:
  {{- merge $own (default dict .more) (get .root.Values.podLabels .role | default dict) $mesh $common | toYaml | nindent 2 }}
{{- with get .root.Values.podAnnotations .role }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
Labels and annotations of a role's Jobs, and its queue; call with (dict "root" $ "role" "resolve"), and "object" true for an object
of the release's own.
*/}}
{{- define "shadowprice.jobMetadata" -}}
{{- $kueue := dict -}}
{{- with .root.Values.kueue.queue }}{{ $_ := set $kueue "kueue.x-k8s.io/queue-name" . }}{{ end -}}
{{- with .root.Values.kueue.priorityClass }}{{ $_ := set $kueue "kueue.x-k8s.io/priority-class" . }}{{ end -}}
{{- $own := include "shadowprice.selector" . | fromYaml -}}
{{- $common := default false .object | ternary (include "shadowprice.labels" .root | fromYaml) .root.Values.commonLabels -}}
labels:
  {{- merge $own $kueue (get .root.Values.jobLabels .role | default dict) $common | toYaml | nindent 2 }}
{{- with get .root.Values.jobAnnotations .role }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
