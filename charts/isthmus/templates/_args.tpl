{{/* Flags of both kinds of pods, as a YAML list; the argument is a dict: root; settings; controllers. */}}
{{- define "isthmus.args" -}}
{{- $ := .root -}}
- --cloud-provider={{ $.Values.cloud.provider }}
{{- if $.Values.cloud.config.secretName }}
- --cloud-config=/etc/isthmus/cloud.conf
{{- end }}
- --secure-port={{ .settings.securePort }}
- --v={{ $.Values.logLevel }}
{{- end }}

{{- define "isthmus.controllerArgs" -}}
{{- $c := .Values.controller -}}
{{ include "isthmus.args" (dict "root" . "settings" $c) }}
- {{ printf "--cluster-name=%s" $c.clusterName | quote }}
{{- $controllers := $c.controllers }}
{{- if include "isthmus.webhooksApart" . }}
{{- /* Without its webhook beside it, it is off by itself. */}}
{{- $controllers = append $controllers "persistentvolume-label-controller" | uniq }}
{{- end }}
{{- if ne (join "," $controllers) "*" }}
- --controllers={{ join "," $controllers }}
{{- end }}
{{- /* AWS has routes always, and they need the pods' range. */}}
{{- if and (eq .Values.cloud.provider "aws") (not (contains "--cluster-cidr=" (join " " $c.extraArgs))) }}
- --configure-cloud-routes=false
{{- end }}
{{- if eq $c.kind "StaticPod" }}
- --kubeconfig=/etc/isthmus/kubeconfig
{{- end }}
{{- if include "isthmus.webhooksWithControllers" . }}
{{ include "isthmus.webhookArgs" . }}
{{- end }}
{{- range $c.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "isthmus.webhookArgs" -}}
{{- $w := .Values.webhooks -}}
{{- $static := and (eq .Values.controller.kind "StaticPod") (not $w.deployment.enabled) -}}
- --webhooks={{ join "," $w.names }}
- --webhook-secure-port={{ $w.port }}
- --webhook-shutdown-delay=5s
{{- if ne .Release.Namespace "kube-system" }}
- --webhook-service-namespace={{ .Release.Namespace }}
{{- end }}
{{- if ne $w.failurePolicy "Ignore" }}
- --webhook-failure-policy={{ $w.failurePolicy }}
{{- end }}
{{- if eq $w.certificate.source "files" }}
- --webhook-cert-dir={{ ternary "/etc/isthmus/webhook" "/etc/isthmus-webhook" $static }}
{{- else }}
- --webhook-cert-source={{ $w.certificate.source }}
{{- $secret := printf "%s/%s" .Release.Namespace $w.certificate.secretName }}
{{- if ne $secret "kube-system/isthmus-webhook-tls" }}
- --webhook-cert-secret={{ $secret }}
{{- end }}
{{- end }}
{{- with $w.certificate.issuer }}
- {{ printf "--webhook-cert-manager-issuer=%s" . | quote }}
{{- end }}
{{- if $w.certificate.injectCA }}
- --webhook-cert-manager-inject-ca
{{- end }}
{{- if eq $w.registration "auto" }}
- --webhook-registration=auto
{{- end }}
{{- with $w.url }}
- --webhook-url={{ . }}
{{- end }}
{{- if $w.clientCAConfigMap }}
- --webhook-client-ca-file={{ ternary "/etc/isthmus/webhook-clients" "/etc/isthmus-webhook-clients" $static }}/ca.crt
{{- end }}
{{- range $w.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
