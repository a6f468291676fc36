// Package vsphere logs in to a vCenter, once for all who ask it: with a user and a password, with a certificate by a token of the
// vCenter's token service, or by a copy of a session that somebody else keeps.
//
// It has one session for the vSphere API (SOAP) and one for the API of tags (REST), which end with the process. A vCenter ends
// a session that nobody has used for half an hour, and after its own restart; then there is a new one, before the call that was
// refused is sent again. A login that was refused is not tried again at once: a vCenter locks users out.
package vsphere
