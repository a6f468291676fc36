// Package doctor looks for what keeps a cluster and its cloud from working together, and says of each finding what to do next. It
// reads the API server and the cloud, and changes neither.
package doctor
