{{/* A Ray cluster on the pipeline image, head and workers alike on the workspace. */}}
{{- define "shadowprice.rayCluster" -}}
rayVersion: {{ .Values.training.ray.version | quote }}
# With a token, which KubeRay makes and gives to the cluster's pods alone, nobody else can run code there.
authOptions:
  mode: {{ .Values.training.ray.auth }}
headGroupSpec:
  rayStartParams:
    dashboard-host: "0.0.0.0"
    # The head only keeps the state of the cluster; work goes to the workers.
    num-cpus: "0"
  template:
    {{- include "shadowprice.rayPod" (dict "root" . "role" "ray-head" "resources" .Values.training.ray.head.resources) | nindent 4 }}
workerGroupSpecs:
  - groupName: workers
    replicas: {{ .Values.training.ray.workers }}
    minReplicas: {{ .Values.training.ray.workers }}
    maxReplicas: {{ .Values.training.ray.workers }}
    rayStartParams: {}
    template:
      {{- include "shadowprice.rayPod" (dict "root" . "role" "ray-worker" "resources" .Values.training.ray.worker.resources) | nindent 6 }}
{{- end }}

{{/* How a job is run, but for its entrypoint and its cluster. */}}
{{- define "shadowprice.rayJob" -}}
# On a worker: the head has no processor to give, and less memory.
entrypointNumCpus: 1
submissionMode: K8sJobMode
shutdownAfterJobFinishes: true
ttlSecondsAfterFinished: {{ .Values.training.rayJob.ttlSecondsAfterFinished }}
activeDeadlineSeconds: {{ .Values.training.rayJob.activeDeadlineSeconds }}
backoffLimit: {{ .Values.training.rayJob.backoffLimit }}
# KubeRay's own would run as whoever the image says, with a token, and a namespace with restricted pods refuses it.
submitterPodTemplate:
  metadata:
    {{- include "shadowprice.podMetadata" (dict "root" . "role" "ray-submitter") | nindent 4 }}
  spec:
    restartPolicy: Never
    serviceAccountName: {{ include "shadowprice.name" . }}-training
    automountServiceAccountToken: false
    enableServiceLinks: false
    {{- include "shadowprice.pullSecrets" . | nindent 4 }}
    securityContext:
      {{- include "shadowprice.podSecurity" . | nindent 6 }}
    containers:
      - name: ray-job-submitter
        image: {{ include "shadowprice.image" (dict "root" . "image" .Values.images.pipeline) }}
        imagePullPolicy: {{ .Values.images.pipeline.pullPolicy }}
        env:
          - {name: HOME, value: /tmp}
        resources:
          requests: {cpu: 200m, memory: 512Mi}
          limits: {cpu: "1", memory: 1Gi}
        securityContext:
          {{- include "shadowprice.containerSecurity" . | nindent 10 }}
        volumeMounts:
          - {name: scratch, mountPath: /tmp}
    volumes:
      - name: scratch
        emptyDir: {sizeLimit: 256Mi}
{{- end }}

{{- define "shadowprice.rayPod" -}}
metadata:
  {{- include "shadowprice.podMetadata" (dict "root" .root "role" .role) | nindent 2 }}
spec:
  serviceAccountName: {{ include "shadowprice.name" .root }}-training
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- include "shadowprice.pullSecrets" .root | nindent 2 }}
  securityContext:
    {{- include "shadowprice.podSecurity" .root | nindent 4 }}
  containers:
    - name: {{ .role }}
      image: {{ include "shadowprice.image" (dict "root" .root "image" .root.Values.images.pipeline) }}
      imagePullPolicy: {{ .root.Values.images.pipeline.pullPolicy }}
      env:
        - {name: HOME, value: /tmp}
        - {name: OMP_NUM_THREADS, value: "1"}
        {{- include "shadowprice.redisEnv" .root | nindent 8 }}
        {{- include "shadowprice.extraEnv" .root.Values.training.ray.extraEnv | nindent 8 }}
      {{- if eq .role "ray-head" }}
      ports:
        - {name: gcs-server, containerPort: 6379, protocol: TCP}
        - {name: dashboard, containerPort: 8265, protocol: TCP}
        - {name: client, containerPort: 10001, protocol: TCP}
      {{- end }}
      resources:
        {{- toYaml .resources | nindent 8 }}
      securityContext:
        {{- include "shadowprice.containerSecurity" .root | nindent 8 }}
      volumeMounts:
        - {{ include "shadowprice.workspaceMount" (dict "root" .root "readOnly" false) | nindent 10 | trim }}
        - {name: scratch, mountPath: /tmp}
        - {name: shared-memory, mountPath: /dev/shm}
  volumes:
    - name: workspace
      persistentVolumeClaim:
        claimName: {{ include "shadowprice.workspaceClaim" .root }}
    - name: scratch
      emptyDir: {sizeLimit: 10Gi}
    - name: shared-memory
      emptyDir: {medium: Memory, sizeLimit: 2Gi}
{{- end }}

{{/*
Fail where the API server would drop authOptions: a field that a CRD's schema lacks is pruned with no more than a warning,
and the cluster would run open. Each CRD is read as the version this chart writes and as the one that is stored. Without a
cluster (helm template) lookup finds nothing, and the Ray job client's strict creation is what refuses the field.
*/}}
{{- define "shadowprice.rayAuthKept" -}}
{{- if and .Values.checks.crds (ne .Values.training.ray.auth "disabled") }}
{{- $places := dict "rayclusters.ray.io" (list) "rayjobs.ray.io" (list "rayClusterSpec") }}
{{- range $crd, $path := $places }}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $crd }}
{{- range $version := dig "spec" "versions" list $found }}
{{- if or (eq $version.name "v1") $version.storage }}
{{- $place := dig "schema" "openAPIV3Schema" "properties" "spec" dict $version }}
{{- range $path }}
{{- $place = dig "properties" . dict $place }}
{{- end }}
{{- if not (hasKey (dig "properties" dict $place) "authOptions") }}
{{- fail (printf "training.ray.auth: the CRD %s (version %s) has no authOptions, so the API server would drop the token and run an open Ray cluster; upgrade KubeRay's CRDs and operator to 1.5.1 or later, or set training.ray.auth=disabled to rely on the network policy alone (docs/how-to/run-steps-as-ray-jobs.md)" $crd $version.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
