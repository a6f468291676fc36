// Package supervisor is the API server of a vSphere Supervisor, as a guest cluster's cloud controller manager uses it: objects in the
// one namespace that the cluster is in, with the rights of the cluster's own service account there.
//
// What an object's owner reference says of its cluster is read and written here; whose an object is decides cloud.Judge. Which
// objects there are, and what they mean, is the business of the packages beside it.
package supervisor
