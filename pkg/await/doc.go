// Package await waits for work that a cloud does in the background: one look tells of all that
// is pending, and whoever waits gives up after a short time and is told of the end instead. So
// neither the number of objects nor how long the cloud takes keeps workers busy, or costs requests.
//
// It keeps nothing that a restart would miss: what is pending is what somebody waits for, and
// that is found out again from the cloud. It does not retry, and it knows no states: what an
// object looks like at the end is the caller's type.
package await
