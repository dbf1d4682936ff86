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
{{- if and $cluster .Values.monitoring.rules.enabled (include "shadowprice.serves" (dict "root" . "api" "monitoring.coreos.com/v1" "kind" "PrometheusRule")) -}}
{{- $selectors := include "shadowprice.selectors" . | fromJson -}}
{{- range (lookup "monitoring.coreos.com/v1" "PrometheusRule" $space "").items -}}
{{- $other := dig "metadata" "labels" "app.kubernetes.io/instance" "" . -}}
{{- $rules := toJson (default dict .spec) -}}
{{- if and (ne $other $.Release.Name) (empty (omit $selectors "namespace")) -}}
{{- range (empty $names | ternary (list $.Values.campaign) $names) -}}
{{- if contains (printf "campaign=\\\"%s\\\"" .) $rules -}}
{{- $faults = append $faults (printf "set monitoring.selectors.app_kubernetes_io_instance to %s, because release %s of this namespace has campaign %s too and one Prometheus would mix their series" $.Release.Name $other .) -}}
{{- end -}}
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
