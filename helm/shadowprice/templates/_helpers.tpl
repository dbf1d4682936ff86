{{- define "shadowprice.campaign" -}}
{{- if not (hasKey .Values "complete") -}}
{{- include "shadowprice.complete" . -}}
{{- $_ := set .Values "complete" true -}}
{{- end -}}
{{- .Values.campaign -}}
{{- end }}

{{/*
The served campaigns as JSON, by their names: each with the end of its objects' names, its folders of the workspace and of
the decision log, its schedules and its fields. The only campaign of `campaign` has the whole workspace and log.
*/}}
{{- define "shadowprice.served" -}}
{{- $_ := include "shadowprice.campaign" . -}}
{{- $r := .Values.resolve -}}
{{- $retrain := .Values.watch.retrain.schedule -}}
{{- $found := list -}}
{{- range $name, $given := .Values.campaigns -}}
{{- $own := default dict $given -}}
{{- $found = append $found (dict
  "name" $name
  "end" (printf "-%s" (include "shadowprice.slug" $name))
  "folder" (printf "/workspace/%s" $name)
  "subPath" (clean (printf "%s/%s" $.Values.workspace.subPath $name) | trimPrefix "/")
  "log" (printf "/ledger/served/%s" $name)
  "schedule" (default $r.schedule $own.schedule)
  "closingSchedule" (hasKey $own "closingSchedule" | ternary $own.closingSchedule $r.closingSchedule)
  "retrain" (default "" $own.retrainSchedule)
  "fields" (mergeOverwrite (deepCopy $.Values.campaignFields) (default dict $own.fields))) -}}
{{- else -}}
{{- $found = append $found (dict
  "name" .Values.campaign
  "end" ""
  "folder" "/workspace"
  "subPath" .Values.workspace.subPath
  "log" "/ledger/served"
  "schedule" $r.schedule
  "closingSchedule" $r.closingSchedule
  "retrain" $retrain
  "fields" .Values.campaignFields) -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}

{{/* A campaign's name as a part of objects' names. */}}
{{- define "shadowprice.slug" -}}
{{- lower . | replace "_" "-" | trimSuffix "-" -}}
{{- end }}

{{/* Name of an object of one campaign, at most 52 characters as a CronJob's; call with (dict "root" $ "role" "resolve" "end" "-spring"). */}}
{{- define "shadowprice.objectOf" -}}
{{- $whole := printf "%s-%s%s" (include "shadowprice.name" .root) .role .end -}}
{{- if gt (len $whole) 52 -}}
{{- $whole = printf "%s-%s" ($whole | trunc 43 | trimSuffix "-") (sha256sum $whole | trunc 8) -}}
{{- end -}}
{{- $whole -}}
{{- end }}

{{/* Name of the RayJob of the training, unchecked: a run is an object of its own, and KubeRay takes names of 47 characters. */}}
{{- define "shadowprice.trainName" -}}
{{- printf "%s-train-%s" (include "shadowprice.prefix" . | trunc 30 | trimSuffix "-") .Values.training.rayJob.run -}}
{{- end }}

{{/* Start of every object's name, unchecked. */}}
{{- define "shadowprice.prefix" -}}
{{- coalesce .Values.nameOverride .Values.campaign .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{/* What Services and InferenceServices may be called: a letter first, then lower-case letters, digits and "-". */}}
{{- define "shadowprice.name" -}}
{{- $_ := include "shadowprice.campaign" . -}}
{{- $name := include "shadowprice.prefix" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "nameOverride: objects cannot be called %q as the campaign is; give a name of lower-case letters, digits and '-', a letter first" $name) -}}
{{- end -}}
{{- if regexMatch "-(ledger|console|predictor|workspace)$" $name -}}
{{- fail (printf "nameOverride: %q ends as objects of a campaign %q do, so the two would collide in one namespace; give another name" $name (regexReplaceAll "-[a-z]+$" $name "")) -}}
{{- end -}}
{{- $name -}}
{{- end }}

{{/* Further variables of a container, as a list's entries. */}}
{{- define "shadowprice.extraEnv" -}}
{{- with . }}
{{ toYaml . }}
{{- end }}
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

{{/* Where a service finds its campaigns: files of the only one, or the folder of several and their names. */}}
{{- define "shadowprice.campaignsEnv" -}}
{{- if .Values.campaigns -}}
- {name: SHADOWPRICE_CAMPAIGNS, value: /workspace}
- {name: SHADOWPRICE_CAMPAIGN_NAMES, value: {{ .Values.campaigns | keys | sortAlpha | join "," | quote }}}
{{- else -}}
- {name: SHADOWPRICE_CAMPAIGN_FILE, value: /workspace/campaign.json}
{{- end }}
{{- end }}

{{/* Fields of the campaigns that the values set, for every process that reads campaign.json. */}}
{{- define "shadowprice.fieldsEnv" -}}
{{- $fields := dict -}}
{{- range include "shadowprice.served" . | fromJsonArray -}}
{{- if .fields -}}{{- $_ := set $fields .name .fields -}}{{- end -}}
{{- end -}}
{{- with $fields -}}
- {name: SHADOWPRICE_CAMPAIGN_FIELDS, value: {{ toJson . | quote }}}
{{- end }}
{{- end }}

{{/* Where Redis is: a secret's key, never a value. */}}
{{- define "shadowprice.redisEnv" -}}
{{- if eq .Values.features.online.store "redis" }}
- name: SHADOWPRICE_REDIS
  valueFrom:
    secretKeyRef:
      name: {{ .Values.features.online.redis.existingSecret }}
      key: {{ .Values.features.online.redis.key }}
{{- end }}
{{- end }}

{{/* Whether the ledger keeps anything on its claim: its database or its decision log; empty where not. */}}
{{- define "shadowprice.ledgerKeeps" -}}
{{- if or (eq .Values.ledger.store "sqlite") .Values.ledger.decisionLog.enabled }}true{{ end -}}
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

{{/* Token and certificate for a service outside of the release, from a secret; call with (dict "name" "prometheus" "of" .Values.resolve.prometheus). */}}
{{- define "shadowprice.peerVolume" -}}
{{- with .of.existingSecret }}
- name: {{ $.name }}
  secret:
    secretName: {{ . }}
    # Read by the pod's group alone: 0440.
    defaultMode: 288
    items:
      {{- with $.of.tokenKey }}
      - {key: {{ . | quote }}, path: token}
      {{- end }}
      {{- with $.of.caKey }}
      - {key: {{ . | quote }}, path: ca.crt}
      {{- end }}
{{- end }}
{{- end }}

{{- define "shadowprice.peerMount" -}}
{{- if .of.existingSecret }}
- {name: {{ .name }}, mountPath: /etc/shadowprice/{{ .name }}, readOnly: true}
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

{{/*
Writes whole numbers of the values as such: Helm holds numbers as floats, and prints those from a million on as 1e+06. Every
template begins with it; call with a mapping.
*/}}
{{- define "shadowprice.wholeNumbers" -}}
{{- range $key, $value := . -}}
{{- if kindIs "map" $value -}}
{{- include "shadowprice.wholeNumbers" $value -}}
{{- else if kindIs "slice" $value -}}
{{- $entries := list -}}
{{- range $value -}}
{{- $entry := dict "entry" . -}}
{{- include "shadowprice.wholeNumbers" $entry -}}
{{- $entries = append $entries $entry.entry -}}
{{- end -}}
{{- $_ := set $ $key $entries -}}
{{- else if kindIs "float64" $value -}}
{{- if and (eq $value (floor $value)) (lt $value 9007199254740992.0) (gt $value -9007199254740992.0) -}}
{{- $_ := set $ $key (int64 $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
