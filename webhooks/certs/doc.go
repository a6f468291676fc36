// Package certs has the certificate that webhooks are served with (Source), from one of:
//   - Files: a directory's files, which somebody else writes; read again when they change;
//   - SelfManaged: a CA and a certificate of our own in a Secret that all replicas share,
//     rotated so that no request fails;
//   - CertManager: a certificate that cert-manager issues into such a Secret.
package certs
