// Package gcp authenticates to Google Cloud. A Session has one source of identity, decided once:
// a token that the caller gives (a pod's service account), or else the first of these that is
// there: the credentials file that is configured, GOOGLE_APPLICATION_CREDENTIALS, the file of
// gcloud ("application default credentials"), and the metadata server of the instance. One that is
// there but does not work is an error; no other is tried. A Google service account can be
// impersonated on top of each.
//
// It speaks the wire protocols itself, which are five small requests:
//
//   - the metadata server: https://cloud.google.com/compute/docs/access/authenticate-workloads,
//   - keys of service accounts: https://developers.google.com/identity/protocols/oauth2/service-account (RFC 7523),
//   - logins of users: https://developers.google.com/identity/protocols/oauth2/web-server#offline,
//   - workload identity federation: https://cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token (RFC 8693),
//   - impersonation: https://cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken,
//
// because Google's own library (golang.org/x/oauth2/google) sends secrets to whatever URL a
// credentials file has in it, follows redirects with them, puts whole answers into its errors, and
// asks the metadata server without a context. Here a secret goes to Google's own hosts of the
// service in question alone, in the universe that the caller names (hosts.go). The tests of the
// simulator hold its answers against Google's library, with the same files.
package gcp
