// Package status is isthmus status: what the controller manager works on, and what waits. It asks the leader's page /status where it is
// told how to reach and to verify it, otherwise the API server. It changes nothing, and its credentials go to verified servers only.
package status
