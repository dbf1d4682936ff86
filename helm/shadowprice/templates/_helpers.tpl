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

{{/* Refuse an installation in one sentence that names all that is missing: values, kinds of the API server, secrets and claims. */}}
{{- define "shadowprice.complete" -}}
{{- $redis := eq .Values.features.online.store "redis" -}}
{{- $shared := eq .Values.ledger.store "redis" -}}
{{- $faults := list -}}
{{- $missing := list -}}
{{- if not (or .Values.campaign .Values.campaigns) -}}
{{- $missing = append $missing "campaign (its name, as in campaign.json; several in campaigns)" -}}
{{- end -}}
{{- if and $redis (not .Values.features.online.redis.existingSecret) -}}
{{- $missing = append $missing "features.online.redis.existingSecret (the secret with the connection string of the online store)" -}}
{{- end -}}
{{- if and $shared (not .Values.ledger.redis.existingSecret) -}}
{{- $missing = append $missing "ledger.redis.existingSecret (the secret with the address of the ledger's Redis)" -}}
{{- end -}}
{{- if $missing -}}
{{- $faults = append $faults (printf "set %s in a values file or with --set" (join ", " $missing)) -}}
{{- end -}}
{{- $names := .Values.campaigns | keys | sortAlpha -}}
{{- $wrong := list -}}
{{- range default (compact (list .Values.campaign)) $names -}}
{{- if not (regexMatch "^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$" .) -}}{{- $wrong = append $wrong (quote .) -}}{{- end -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "%s: %s cannot name a campaign; use letters, digits, '-' and '_', at most 63 of them, a letter or digit first" (empty $names | ternary "campaign" "campaigns") (join ", " $wrong)) -}}
{{- end -}}
{{- if and .Values.campaign $names -}}
{{- $faults = append $faults "set campaign (one) or campaigns (several), not both" -}}
{{- end -}}
{{- $slugs := dict -}}
{{- range $names -}}
{{- $slug := include "shadowprice.slug" . -}}
{{- if hasKey $slugs $slug -}}
{{- $faults = append $faults (printf "rename campaign %s or %s, because objects of both would be called %s" (get $slugs $slug) . $slug) -}}
{{- end -}}
{{- $_ := set $slugs $slug . -}}
{{- end -}}
{{- if and $names .Values.watch.retrain.schedule -}}
{{- $faults = append $faults "set campaigns.<name>.retrainSchedule in place of watch.retrain.schedule, because each campaign has a schedule of its own" -}}
{{- end -}}
{{- if and $names .Values.training.rayJob.enabled (not (has .Values.training.rayJob.campaign $names)) -}}
{{- $faults = append $faults (printf "set training.rayJob.campaign (the one of %s to train)" (join ", " $names)) -}}
{{- end -}}
{{- $net := .Values.networkPolicy -}}
{{- if and $net.identities.enabled (eq $net.mesh "none") -}}
{{- $faults = append $faults "set networkPolicy.mesh (sidecar or ambient) for networkPolicy.identities, because without a mesh nobody has an identity" -}}
{{- end -}}
{{- if and .Values.predictor.exposed $net.enabled $net.callers (not $net.gateway) -}}
{{- $faults = append $faults "set networkPolicy.gateway (the labels of its namespace) for predictor.exposed, because networkPolicy.callers would shut it out" -}}
{{- end -}}
{{- if .Values.checks.crds -}}
{{- $absent := list -}}
{{- $training := .Values.training -}}
{{- $kserve := "install KServe 0.18 or later" -}}
{{- $prometheus := "install the Prometheus operator, or set monitoring.podMonitor.enabled and monitoring.rules.enabled to false" -}}
{{- $ray := "install KubeRay 1.5.1 or later, or disable training.rayJob, training.rayCluster and training.steps" -}}
{{- $needs := list
  (list true "serving.kserve.io/v1beta1" "InferenceService" $kserve)
  (list .Values.monitoring.podMonitor.enabled "monitoring.coreos.com/v1" "PodMonitor" $prometheus)
  (list .Values.monitoring.rules.enabled "monitoring.coreos.com/v1" "PrometheusRule" $prometheus)
  (list (or $training.rayJob.enabled $training.steps.enabled) "ray.io/v1" "RayJob" $ray)
  (list $training.rayCluster.enabled "ray.io/v1" "RayCluster" $ray)
  (list (not (empty .Values.kueue.queue)) "kueue.x-k8s.io/v1beta1" "LocalQueue" "install Kueue, or set kueue.queue to an empty text")
  (list (ne $net.mesh "none") "security.istio.io/v1" "PeerAuthentication" "install Istio 1.22 or later, or set networkPolicy.mesh to none") -}}
{{- range $needs -}}
{{- if and (index . 0) (not (include "shadowprice.serves" (dict "root" $ "api" (index . 1) "kind" (index . 2)))) -}}
{{- $absent = append $absent (printf "%s %s (%s)" (index . 1) (index . 2) (index . 3)) -}}
{{- end -}}
{{- end -}}
{{- if $absent -}}
{{- $faults = append $faults (printf "the API server has no %s" (join ", and no " $absent)) -}}
{{- end -}}
{{- end -}}
{{- $faults = concat $faults (include "shadowprice.pipelinesFaults" . | fromJsonArray) -}}
{{- if .Values.checks.objects -}}
{{- $space := .Release.Namespace -}}
{{- $absent := list -}}
{{- /* Each namespace of a cluster has this account; without a cluster, and in a namespace to be made, lookup finds nothing. */ -}}
{{- $cluster := lookup "v1" "ServiceAccount" $space "default" -}}
{{- if $cluster -}}
{{- $ofSpace := lookup "v1" "Namespace" "" $space | dig "metadata" "labels" dict -}}
{{- $found := eq (get $ofSpace "istio.io/dataplane-mode") "ambient" | ternary "ambient" "none" -}}
{{- if or (eq (get $ofSpace "istio-injection") "enabled") (and (get $ofSpace "istio.io/rev") (eq $found "none")) }}{{ $found = "sidecar" }}{{ end -}}
{{- if and (ne $found "none") (eq $net.mesh "none") -}}
{{- $faults = append $faults (printf "set networkPolicy.mesh to %s, because namespace %s is part of a mesh that the network policies would shut out" $found .Release.Namespace) -}}
{{- end -}}
{{- $pull := list -}}
{{- range .Values.imagePullSecrets -}}{{- $pull = append $pull (list true "Secret" .name ".dockerconfigjson" "imagePullSecrets") -}}{{- end -}}
{{- $needs := concat (list
  (list $redis "Secret" .Values.features.online.redis.existingSecret .Values.features.online.redis.key "features.online.redis")
  (list $shared "Secret" .Values.ledger.redis.existingSecret .Values.ledger.redis.key "ledger.redis")
  (list $shared "Secret" .Values.ledger.redis.existingSecret .Values.ledger.redis.passwordKey "ledger.redis.passwordKey")
  (list true "Secret" .Values.auth.existingSecret .Values.auth.key "auth")
  (list true "Secret" .Values.resolve.prometheus.existingSecret .Values.resolve.prometheus.tokenKey "resolve.prometheus.tokenKey")
  (list true "Secret" .Values.resolve.prometheus.existingSecret .Values.resolve.prometheus.caKey "resolve.prometheus.caKey")
  (list (and .Values.console.enabled .Values.console.oidc.issuer) "Secret" .Values.console.oidc.existingSecret .Values.console.oidc.key "console.oidc")
  (list true "PersistentVolumeClaim" .Values.workspace.existingClaim "" "workspace.existingClaim")
  (list true "PersistentVolumeClaim" .Values.ledger.storage.existingClaim "" "ledger.storage.existingClaim")) $pull -}}
{{- range $needs -}}
{{- if and (index . 0) (index . 2) -}}
{{- $found := lookup "v1" (index . 1) $space (index . 2) -}}
{{- if not $found -}}
{{- $absent = append $absent (printf "%s %s (%s)" (index . 1) (index . 2) (index . 4)) -}}
{{- else if and (index . 3) (not (hasKey (default dict $found.data) (index . 3))) -}}
{{- $absent = append $absent (printf "key %s in %s %s (%s)" (index . 3) (index . 1) (index . 2) (index . 4)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with empty $cluster | ternary "" .Values.kueue.queue -}}
{{- if include "shadowprice.serves" (dict "root" $ "api" "kueue.x-k8s.io/v1beta1" "kind" "LocalQueue") -}}
{{- if not (lookup "kueue.x-k8s.io/v1beta1" "LocalQueue" $space .) -}}{{- $absent = append $absent (printf "LocalQueue %s (kueue.queue)" .) -}}{{- end -}}
{{- end -}}
{{- $rays := list
  (list $.Values.training.rayJob.enabled "RayJob" (include "shadowprice.trainName" $) "set another training.rayJob.run, which is another job")
  (list $.Values.training.rayCluster.enabled "RayCluster" (printf "%s-ray" (include "shadowprice.prefix" $)) "install once with training.rayCluster.enabled=false") -}}
{{- range $ray := $rays -}}
{{- if and (index $ray 0) (include "shadowprice.serves" (dict "root" $ "api" "ray.io/v1" "kind" (index $ray 1))) -}}
{{- $there := lookup "ray.io/v1" (index $ray 1) $space (index $ray 2) -}}
{{- $was := dig "metadata" "labels" "kueue.x-k8s.io/queue-name" "" $there -}}
{{- if and $there (ne $was $.Values.kueue.queue) (not (dig "spec" "suspend" false $there)) -}}
{{- $faults = append $faults (printf "%s %s may not change its queue from %q to %q (kueue.queue): %s" (index $ray 1) (index $ray 2) $was $.Values.kueue.queue (index $ray 3)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $cluster -}}
{{- $by := .Values.predictor.autoscaling.by -}}
{{- if and (eq $by "keda") (include "shadowprice.scaler" (dict "root" $ "api" "autoscaling/v2" "kind" "HorizontalPodAutoscaler")) -}}
{{- $faults = append $faults "install once with predictor.autoscaling.by=none, with which KServe deletes its HorizontalPodAutoscaler; beside it KEDA refuses to scale" -}}
{{- else if and (eq $by "hpa") (include "shadowprice.scaler" (dict "root" $ "api" "keda.sh/v1alpha1" "kind" "ScaledObject")) -}}
{{- $faults = append $faults (printf "install once with predictor.autoscaling.by=none and run kubectl -n %s delete scaledobject %s-predictor, which KServe leaves and which would scale against hpa" $space (include "shadowprice.prefix" .)) -}}
{{- end -}}
{{- end -}}
{{- if $absent -}}
{{- $faults = append $faults (printf "namespace %s has no %s" $space (join ", and no " (uniq $absent))) -}}
{{- end -}}
{{- $claims := list (list "workspace" "workspace.existingClaim" .Values.workspace.existingClaim) (list "ledger" "ledger.storage.existingClaim" .Values.ledger.storage.existingClaim) -}}
{{- range $claims -}}
{{- $claim := printf "%s-%s" (include "shadowprice.prefix" $) (index . 0) -}}
{{- $found := lookup "v1" "PersistentVolumeClaim" $space $claim -}}
{{- $owner := dig "metadata" "annotations" "meta.helm.sh/release-name" "" (default dict $found) -}}
{{- if and $found (not (index . 2)) (ne $owner $.Release.Name) -}}
{{- $faults = append $faults (printf "the claim %s is kept from %s: set %s=%s to go on with its data, or nameOverride to begin anew" $claim (ternary (printf "release %s" $owner) "another installation" (ne $owner "")) (index . 1) $claim) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $faults -}}
{{- fail (printf "%s; see docs/how-to/install-on-a-cluster.md" (join "; " $faults)) -}}
{{- end -}}
{{- end }}

{{/*
Not empty where the API server has a kind; call with (dict "root" $ "api" "group/version" "kind" "…"). Without a cluster
Helm is told of groups alone, so a kind counts as missing only where another kind of its group is listed.
*/}}
{{- define "shadowprice.serves" -}}
{{- $kinds := false -}}
{{- range .root.Capabilities.APIVersions -}}
{{- if hasPrefix (printf "%s/" $.api) . -}}{{- $kinds = true -}}{{- end -}}
{{- end -}}
{{- if and (.root.Capabilities.APIVersions.Has .api) (or (not $kinds) (.root.Capabilities.APIVersions.Has (printf "%s/%s" .api .kind))) -}}
yes
{{- end -}}
{{- end }}

{{/* Not empty where KServe has made a scaler of a kind; call with (dict "root" $ "api" "keda.sh/v1alpha1" "kind" "ScaledObject"). */}}
{{- define "shadowprice.scaler" -}}
{{- if include "shadowprice.serves" . -}}
{{- range lookup .api .kind .root.Release.Namespace (printf "%s-predictor" (include "shadowprice.prefix" .root)) | dig "metadata" "ownerReferences" list -}}
{{- if eq .kind "InferenceService" }}yes{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Labels and values that tell the series of this release from those of others, as JSON. */}}
{{- define "shadowprice.selectors" -}}
{{- $found := deepCopy .Values.monitoring.selectors -}}
{{- if and (hasKey $found "namespace") (not $found.namespace) }}{{ $_ := set $found "namespace" .Release.Namespace }}{{ end -}}
{{- toJson $found -}}
{{- end }}

{{/* The same as the re-solve takes them. */}}
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

{{- define "shadowprice.prometheusVolume" -}}
{{- with .prometheus.existingSecret }}
- name: prometheus
  secret:
    secretName: {{ . }}
    # Read by the pod's group alone: 0440.
    defaultMode: 288
    items:
      {{- with $.prometheus.tokenKey }}
      - {key: {{ . | quote }}, path: token}
      {{- end }}
      {{- with $.prometheus.caKey }}
      - {key: {{ . | quote }}, path: ca.crt}
      {{- end }}
{{- end }}
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
{{- $ends := has .role (list "resolve" "watch" "promote" "schedule" "test" "ray-head" "ray-worker" "ray-submitter") -}}
{{- $calls := and (has .role (list "resolve" "test")) .root.Values.networkPolicy.identities.enabled -}}
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
