{{/* The labels of every object; the argument is (list . "component"). */}}
{{- define "isthmus.labels" -}}
{{- $ := index . 0 -}}
{{ include "isthmus.selector" . }}
app.kubernetes.io/instance: {{ $.Release.Name | quote }}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
helm.sh/chart: {{ $.Chart.Name }}-{{ $.Chart.Version }}
{{- end }}

{{/* What selects pods. There is one Isthmus in a cluster, so that the release's name is no part of it. */}}
{{- define "isthmus.selector" -}}
app.kubernetes.io/name: isthmus
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "isthmus.image" -}}
{{ .Values.image.registry }}/{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "isthmus.credentialProviderImage" -}}
{{- $image := .Values.credentialProvider.image -}}
{{ $image.registry | default .Values.image.registry }}/{{ $image.repository }}:{{ $image.tag | default .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Nine tenths of a limit, which the schema has in Mi or Gi: what Go keeps to before the kernel ends it all. */}}
{{- define "isthmus.gomemlimit" -}}
{{- $mib := trimSuffix "Mi" . -}}
{{- if hasSuffix "Gi" . -}}{{- $mib = mul 1024 (trimSuffix "Gi" . | int) -}}{{- end -}}
{{ div (mul 9 (int $mib)) 10 }}MiB
{{- end }}

{{/* Who the controllers are: empty if there are none. */}}
{{- define "isthmus.controllerSubject" -}}
{{- if eq .Values.controller.kind "StaticPod" -}}
- apiGroup: rbac.authorization.k8s.io
  kind: User
  name: {{ .Values.controller.staticPod.user | quote }}
{{- else if ne .Values.controller.kind "None" -}}
- kind: ServiceAccount
  name: isthmus-cloud-controller-manager
  namespace: {{ .Release.Namespace | quote }}
{{- end }}
{{- end }}

{{/* Who serves the webhooks. */}}
{{- define "isthmus.webhookSubject" -}}
{{- if .Values.webhooks.deployment.enabled -}}
- kind: ServiceAccount
  name: isthmus-cloud-webhook-manager
  namespace: {{ .Release.Namespace | quote }}
{{- else -}}
{{ include "isthmus.controllerSubject" . }}
{{- end }}
{{- end }}

{{- define "isthmus.webhooksApart" -}}
{{- if and .Values.webhooks.enabled .Values.webhooks.deployment.enabled }}true{{ end -}}
{{- end }}

{{- define "isthmus.webhooksWithControllers" -}}
{{- if and .Values.webhooks.enabled (not .Values.webhooks.deployment.enabled) }}true{{ end -}}
{{- end }}

{{/* Whether there is anything but the credential provider. */}}
{{- define "isthmus.manager" -}}
{{- if or .Values.webhooks.enabled (ne .Values.controller.kind "None") }}true{{ end -}}
{{- end }}

{{/* What schema and types cannot say. */}}
{{- define "isthmus.check" -}}
{{- if and (include "isthmus.manager" .) (not .Values.cloud.provider) }}
{{- fail "cloud.provider: required, such as openstack" }}
{{- end }}
{{- if and .Values.cloud.config.content (not .Values.cloud.config.secretName) }}
{{- fail "cloud.config.content: its Secret has no name: set cloud.config.secretName" }}
{{- end }}
{{- if and (has .Values.cloud.provider (list "openstack" "vsphere")) (not .Values.cloud.config.secretName) }}
{{- fail (printf "cloud.config.secretName: %s cannot do without cloud.conf" .Values.cloud.provider) }}
{{- end }}
{{- if and (include "isthmus.webhooksWithControllers" .) (eq .Values.controller.kind "None") }}
{{- fail "webhooks.enabled: with controller.kind=None nobody serves them: set webhooks.deployment.enabled=true, or webhooks.enabled=false" }}
{{- end }}
{{- if and .Values.webhooks.enabled (eq (int .Values.webhooks.port) (int (ternary .Values.webhooks.deployment.securePort .Values.controller.securePort .Values.webhooks.deployment.enabled))) }}
{{- fail "webhooks.port: it is the securePort of the same pods" }}
{{- end }}
{{- $certificate := .Values.webhooks.certificate }}
{{- if and (or $certificate.issuer $certificate.injectCA) (ne $certificate.source "cert-manager") }}
{{- fail "webhooks.certificate.issuer and injectCA: not read without source=cert-manager" }}
{{- end }}
{{- if .Values.networkPolicy.enabled }}
{{- if not .Values.webhooks.enabled }}
{{- fail "networkPolicy.enabled: there are no webhooks to protect" }}
{{- end }}
{{- if ternary .Values.webhooks.deployment.hostNetwork (or .Values.controller.hostNetwork (eq .Values.controller.kind "StaticPod")) .Values.webhooks.deployment.enabled }}
{{- fail "networkPolicy.enabled: no policy holds for pods on the nodes' network: set webhooks.deployment.enabled=true" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "isthmus.uninstall" -}}
helm.sh/hook: post-delete
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
