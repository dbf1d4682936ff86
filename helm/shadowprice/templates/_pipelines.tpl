{{/* Whether a pod of the release calls the Kubeflow Pipelines API; empty where not. */}}
{{- define "shadowprice.callsPipelines" -}}
{{- $calls := eq .Values.resolve.by "kfp" -}}
{{- if .Values.watch.enabled -}}
{{- $calls = or $calls (ne .Values.watch.retrain.schedule "") -}}
{{- range .Values.campaigns -}}{{- $calls = or $calls (not (empty (default dict .).retrainSchedule)) -}}{{- end -}}
{{- end -}}
{{- if $calls }}true{{ end -}}
{{- end }}

{{/* What names a backend and the namespace of the runs; call with (dict "root" $ "kfp" .Values.resolve.kfp). */}}
{{- define "shadowprice.pipelinesArgs" -}}
- --host={{ .kfp.host }}
- --namespace={{ .root.Release.Namespace }}
- --experiment={{ .kfp.experiment }}
{{- end }}

{{/* Where Kubeflow's SDK looks for the token; call with .Values.resolve.kfp. */}}
{{- define "shadowprice.pipelinesMount" -}}
{{- if .multiUser }}
- {name: pipelines-token, mountPath: /var/run/secrets/kubeflow/pipelines, readOnly: true}
{{- end }}
{{- end }}

{{/* A token that only Kubeflow Pipelines takes; call with .Values.resolve.kfp. */}}
{{- define "shadowprice.pipelinesVolume" -}}
{{- if .multiUser }}
- name: pipelines-token
  projected:
    sources:
      - serviceAccountToken: {audience: pipelines.kubeflow.org, path: token, expirationSeconds: 7200}
{{- end }}
{{- end }}

{{/* A hook that makes or deletes schedules; call with (dict "root" $ "name" "…" "hook" "…" "kfp" .Values.resolve.kfp "args" (list "…")). */}}
{{- define "shadowprice.pipelinesJob" -}}
{{- $r := .root.Values.resolve -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  {{- $own := include "shadowprice.jobMetadata" (dict "root" .root "role" "schedule" "object" true) | fromYaml }}
  labels:
    {{- toYaml $own.labels | nindent 4 }}
  annotations:
    {{- with $own.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  backoffLimit: {{ $r.backoffLimit }}
  # Helm waits 300 s by default: a later end would hide why the hook failed.
  activeDeadlineSeconds: {{ min 240 $r.activeDeadlineSeconds }}
  ttlSecondsAfterFinished: 86400
  template:
    metadata:
      {{- include "shadowprice.podMetadata" (dict "root" .root "role" "schedule" "component" "resolve") | nindent 6 }}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ include "shadowprice.name" .root }}-resolve
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- include "shadowprice.pullSecrets" .root | nindent 6 }}
      securityContext:
        {{- include "shadowprice.podSecurity" .root | nindent 8 }}
      containers:
        - name: schedule
          image: {{ include "shadowprice.image" (dict "root" .root "image" .root.Values.images.pipeline) }}
          imagePullPolicy: {{ .root.Values.images.pipeline.pullPolicy }}
          args:
            {{- toYaml (concat (list "python" "-m" "pipelines") .args) | nindent 12 }}
            {{- include "shadowprice.pipelinesArgs" . | nindent 12 }}
          env:
            - {name: HOME, value: /tmp}
            # What the steps run on.
            - name: SHADOWPRICE_PIPELINE_IMAGE
              value: {{ include "shadowprice.image" (dict "root" .root "image" .root.Values.images.pipeline) | quote }}
          resources:
            {{- toYaml $r.resources | nindent 12 }}
          securityContext:
            {{- include "shadowprice.containerSecurity" .root | nindent 12 }}
          volumeMounts:
            - {name: scratch, mountPath: /tmp}
            {{- include "shadowprice.pipelinesMount" .kfp | nindent 12 }}
      volumes:
        - name: scratch
          emptyDir: {sizeLimit: 256Mi}
        {{- include "shadowprice.pipelinesVolume" .kfp | nindent 8 }}
{{- end }}

{{/* Faults of an installation that calls Kubeflow Pipelines, as a JSON array. */}}
{{- define "shadowprice.pipelinesFaults" -}}
{{- $faults := list -}}
{{- if include "shadowprice.callsPipelines" . -}}
{{- $kfp := .Values.resolve.kfp -}}
{{- $space := .Release.Namespace -}}
{{- $profiles := include "shadowprice.serves" (dict "root" . "api" "kubeflow.org/v1" "kind" "Profile") -}}
{{- if $kfp.multiUser -}}
{{- if and .Values.checks.crds (not $profiles) -}}
{{- $faults = append $faults "the API server has no kubeflow.org/v1 Profile: install a Kubeflow with profiles, or set resolve.kfp.multiUser to false and install the release in the namespace of Kubeflow Pipelines" -}}
{{- end -}}
{{- if and .Values.checks.objects (lookup "v1" "ServiceAccount" $space "default") (not (lookup "v1" "ServiceAccount" $space "default-editor")) -}}
{{- $faults = append $faults (printf "namespace %s is no profile (it has no ServiceAccount default-editor, which runs the steps of pipelines): install the release in the namespace of a profile" $space) -}}
{{- end -}}
{{- $steps := .Values.training.steps -}}
{{- if and $steps.enabled .Values.checks.objects (lookup "v1" "ServiceAccount" $space "default-editor") (not (lookup "v1" "ServiceAccount" $space $steps.serviceAccount)) -}}
{{- $faults = append $faults (printf "namespace %s has no ServiceAccount %s, which would run the steps of pipelines: set training.steps.serviceAccount to default-editor" $space $steps.serviceAccount) -}}
{{- end -}}
{{- else -}}
{{- if and .Values.checks.crds $profiles -}}
{{- $faults = append $faults "the Kubeflow of this cluster has profiles and refuses calls without credentials: set resolve.kfp.multiUser to true" -}}
{{- end -}}
{{- $own := regexFind "//ml-pipeline(-ui)?\\.[a-z0-9-]+" $kfp.host | splitList "." | last -}}
{{- if and $own (ne $own $space) -}}
{{- $faults = append $faults (printf "without profiles Kubeflow Pipelines runs everything in %s, where steps do not find the claims and secrets of %s: install the release in %s" $own $space $own) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $faults -}}
{{- end }}
