package cloud

// Diagnosis is what Provider.Diagnose has found.
type Diagnosis struct {
	Problems []Problem
	// Unseen is what could not be looked at without changing something, or without a permission that the controller manager does not
	// need: a clause each.
	Unseen []string
}

// Problem is something in a cloud that keeps it from serving the cluster, or soon will: an object that the configuration names and
// that is not there, a permission that is missing, a quota that is used up.
type Problem struct {
	// Object is what it is about, in the cloud's words: "subnet 1234", "quota of floating IPs".
	Object string
	// What is wrong. It must hold no secret and no unbounded remote body.
	What string
	// Next is what to do about it.
	Next string
	// Warning is true for what works as yet, or may be meant so.
	Warning bool
}
