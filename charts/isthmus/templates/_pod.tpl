{{/*
The pod of the controllers, of the webhooks, or of both. The argument is a dict: root; component; settings, of
values.yaml; args, what it runs; webhooks, whether it serves them; static, whether it is the kubelet's alone.
*/}}
{{- define "isthmus.pod" -}}
{{- $ := .root -}}
{{- $component := .component -}}
metadata:
  {{- with $.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .static }}
  name: isthmus-cloud-controller-manager
  namespace: {{ $.Release.Namespace | quote }}
  {{- end }}
  labels:
    {{- include "isthmus.selector" (list $ .component) | nindent 4 }}
    {{- if .webhooks }}
    isthmus-cloud.github.io/webhooks: served
    {{- end }}
    {{- with $.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- if .static }}
  automountServiceAccountToken: false
  {{- else }}
  serviceAccountName: isthmus-{{ .component }}
  {{- with $.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . | quote }}
    {{- end }}
  {{- end }}
  {{- end }}
  priorityClassName: {{ if .static }}system-node-critical{{ else }}{{ $.Values.priorityClassName | quote }}{{ end }}
  terminationGracePeriodSeconds: 45
  {{- if or .static .settings.hostNetwork }}
  # There is no pod network and no cluster DNS before nodes are initialized. The ports are open on
  # all addresses of the node: which is the cluster's is not known before that, either, and API
  # servers on other nodes call the webhooks by it.
  hostNetwork: true
  dnsPolicy: Default
  {{- end }}
  {{- if not .static }}
  {{- with .settings.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .settings.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .settings.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .spread }}
  topologySpreadConstraints:
    {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ $key }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "isthmus.selector" (list $ $component) | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: {{ .component }}
      image: {{ include "isthmus.image" $ | quote }}
      imagePullPolicy: {{ $.Values.image.pullPolicy }}
      command: [/cloud-controller-manager]
      args:
        {{- range .args }}
        - {{ . | quote }}
        {{- end }}
      ports:
        - name: https
          containerPort: {{ .settings.securePort }}
        {{- if .webhooks }}
        - name: webhook
          containerPort: {{ $.Values.webhooks.port }}
        {{- end }}
      livenessProbe:
        httpGet:
          scheme: HTTPS
          port: https
          path: /healthz
        initialDelaySeconds: 15
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet:
          scheme: HTTPS
          port: https
          path: /readyz
        # One failure: a replica that ends leaves the Service within --webhook-shutdown-delay.
        periodSeconds: 3
        failureThreshold: 1
        timeoutSeconds: 5
      env:
        - name: GOMEMLIMIT
          value: {{ include "isthmus.gomemlimit" .settings.resources.limits.memory }}
        {{- with $.Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      resources:
        {{- toYaml .settings.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      {{- with include "isthmus.volumeMounts" . | trim }}
      volumeMounts:
        {{- . | nindent 8 }}
      {{- end }}
  {{- with include "isthmus.volumes" . | trim }}
  volumes:
    {{- . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* Of the pod; the argument is the same. */}}
{{- define "isthmus.volumeMounts" -}}
{{- $ := .root -}}
{{- if or .static $.Values.cloud.config.secretName }}
- name: cloud-config
  mountPath: /etc/isthmus
  readOnly: true
{{- end }}
{{- if and .webhooks (not .static) (eq $.Values.webhooks.certificate.source "files") }}
- name: webhook-tls
  mountPath: /etc/isthmus-webhook
  readOnly: true
{{- end }}
{{- if and .webhooks (not .static) $.Values.webhooks.clientCAConfigMap }}
- name: webhook-client-ca
  mountPath: /etc/isthmus-webhook-clients
  readOnly: true
{{- end }}
{{- with $.Values.extraVolumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* Of the pod; the argument is the same. */}}
{{- define "isthmus.volumes" -}}
{{- $ := .root -}}
{{- if .static }}
- name: cloud-config
  hostPath:
    path: {{ .settings.staticPod.directory | quote }}
    type: Directory
{{- else if $.Values.cloud.config.secretName }}
- name: cloud-config
  secret:
    secretName: {{ $.Values.cloud.config.secretName | quote }}
    defaultMode: 0440
{{- end }}
{{- if and .webhooks (not .static) (eq $.Values.webhooks.certificate.source "files") }}
- name: webhook-tls
  secret:
    secretName: {{ $.Values.webhooks.certificate.secretName | quote }}
    defaultMode: 0440
{{- end }}
{{- if and .webhooks (not .static) $.Values.webhooks.clientCAConfigMap }}
- name: webhook-client-ca
  configMap:
    name: {{ $.Values.webhooks.clientCAConfigMap | quote }}
{{- end }}
{{- with $.Values.extraVolumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
