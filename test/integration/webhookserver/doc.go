// Package webhookserver holds no code: its tests show what the webhook server and a real
// kube-apiserver do together.
package webhookserver
