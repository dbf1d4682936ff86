{{- define "shadowprice.campaign" -}}
{{- required "campaign: name the campaign (letters, digits and '-'), as in campaign.json" .Values.campaign -}}
{{- end }}

{{/* What Services and InferenceServices may be called: a letter first, then lower-case letters, digits and "-". */}}
{{- define "shadowprice.name" -}}
{{- $name := default (include "shadowprice.campaign" .) .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "nameOverride: objects cannot be called %q as the campaign is; give a name of lower-case letters, digits and '-', a letter first" $name) -}}
{{- end -}}
{{- $name -}}
{{- end }}

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

{{/* repository:tag or repository@digest; call with (dict "root" $ "image" .Values.images.serving). */}}
{{- define "shadowprice.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .root.Chart.AppVersion .image.tag }}
{{- end -}}
{{- end }}

{{- define "shadowprice.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "shadowprice.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "shadowprice.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "shadowprice.workspaceClaim" -}}
{{- default (printf "%s-workspace" (include "shadowprice.name" .)) .Values.workspace.existingClaim -}}
{{- end }}

{{- define "shadowprice.ledgerClaim" -}}
{{- default (printf "%s-ledger" (include "shadowprice.name" .)) .Values.ledger.storage.existingClaim -}}
{{- end }}

{{- define "shadowprice.ledgerUrl" -}}
http://{{ include "shadowprice.name" . }}-ledger.{{ .Release.Namespace }}.svc:8081
{{- end }}

{{/* The workspace as a mount; call with (dict "root" $ "readOnly" true). */}}
{{- define "shadowprice.workspaceMount" -}}
name: workspace
mountPath: /workspace
readOnly: {{ .readOnly }}
{{- with .root.Values.workspace.subPath }}
subPath: {{ . | quote }}
{{- end }}
{{- end }}

{{/* Where Redis is: a secret's key, never a value. */}}
{{- define "shadowprice.redisEnv" -}}
{{- if eq .Values.features.online.store "redis" }}
- name: SHADOWPRICE_REDIS
  valueFrom:
    secretKeyRef:
      name: {{ required "features.online.redis.existingSecret: name the secret with the connection string" .Values.features.online.redis.existingSecret }}
      key: {{ .Values.features.online.redis.key }}
{{- end }}
{{- end }}

{{/* Whether the ledger keeps anything on its claim: its database or its decision log; empty where not. */}}
{{- define "shadowprice.ledgerKeeps" -}}
{{- if or (eq .Values.ledger.books "sqlite") .Values.ledger.decisionLog.enabled }}true{{ end -}}
{{- end }}

{{- define "shadowprice.tokenSecret" -}}
{{- default (printf "%s-tokens" (include "shadowprice.name" .)) .Values.auth.existingSecret -}}
{{- end }}

{{/* Key of the tokens that a pod needs: of a generated secret those of its role alone; call with (dict "root" $ "key" "read"). */}}
{{- define "shadowprice.tokenKey" -}}
{{- if .root.Values.auth.existingSecret }}{{ .root.Values.auth.key }}{{ else }}{{ .key }}{{ end -}}
{{- end }}

{{/* The tokens as a file; call with (dict "variables" (list "…")). */}}
{{- define "shadowprice.tokenEnv" -}}
{{- range .variables }}
- {name: {{ . }}, value: /etc/shadowprice/auth/token}
{{- end }}
{{- end }}

{{- define "shadowprice.tokenMount" -}}
- {name: token, mountPath: /etc/shadowprice/auth, readOnly: true}
{{- end }}

{{/* Call with (dict "root" $ "key" "read"). */}}
{{- define "shadowprice.tokenVolume" -}}
- name: token
  secret:
    secretName: {{ include "shadowprice.tokenSecret" .root }}
    # Read by the pod's group alone: 0440.
    defaultMode: 288
    items: [{key: {{ include "shadowprice.tokenKey" . | quote }}, path: token}]
{{- end }}

{{/* Fail before anything is applied when the API server lacks a kind; call with (dict "root" $ "api" "…" "what" "…"). */}}
{{- define "shadowprice.needs" -}}
{{- if and .root.Values.checks.crds (not (.root.Capabilities.APIVersions.Has .api)) -}}
{{- fail (printf "the API server has no %s; %s" .api .what) -}}
{{- end -}}
{{- end }}
