{{/* A ServiceAccount for a pod; the argument is (list . "component"). */}}
{{- define "isthmus.serviceAccount" -}}
{{- $ := index . 0 -}}
{{- $annotations := $.Values.serviceAccountAnnotations -}}
{{- if eq (index . 1) "cloud-webhook-manager" -}}
{{- $annotations = mergeOverwrite dict $annotations $.Values.webhooks.deployment.serviceAccountAnnotations -}}
{{- end -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: isthmus-{{ index . 1 }}
  namespace: {{ $.Release.Namespace | quote }}
  labels:
    {{- include "isthmus.labels" . | nindent 4 }}
  {{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/*
The binding of a role of the same name. The argument is a dict: root; component; name; namespace, none for a ClusterRole;
subjects.
*/}}
{{- define "isthmus.binding" -}}
{{- $kind := ternary "Role" "ClusterRole" (hasKey . "namespace") -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "isthmus.labels" (list .root .component) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects:
  {{- .subjects | nindent 2 }}
{{- end }}

{{/* Whether a request is of one of our accounts, for admission policies. */}}
{{- define "isthmus.byUs" -}}
{{- $prefix := printf "system:serviceaccount:%s:isthmus-" .Release.Namespace }}
{{- $accounts := list (print $prefix "cloud-controller-manager" | toJson) (print $prefix "cloud-webhook-manager" | toJson) }}
{{- if eq .Values.controller.kind "StaticPod" }}
{{- $accounts = append $accounts (toJson .Values.controller.staticPod.user) }}
{{- end -}}
request.userInfo.username in [{{ join ", " $accounts }}]
{{- end }}
