package deletionguard

import (
	"fmt"
	"time"
)

// Claim is what the cloud says about the instance of a Node.
type Claim int

// The claims. A Node that has a provider ID is looked up by it, any other by its name.
const (
	IDNotFound Claim = iota
	NameNotFound
	NameFound
)

// Evidence is what the scope that makes the claim has shown of the cluster to this process.
type Evidence int

const (
	// NoEvidence is nothing that could tell whose scope it is.
	NoEvidence Evidence = iota
	// Unidentified means that the cloud does not say which scope the claim is about.
	Unidentified
	// NameMatches are instances of the names of Nodes. Another project may have such, so they speak
	// only for Nodes that have nothing but a name either.
	NameMatches
	// IDResolved means that an existing provider ID or the UUID of a Node's own machine led to an instance
	// there, that one there bears the cluster's mark, or that this Node's own was found there before.
	IDResolved
)

// Counts say of how many of the cluster's Nodes instances are known now.
type Counts struct {
	// Seen have one, SeenHere in the scope that makes the claim (any, where it is unidentified).
	Seen, SeenHere int
	// Missing were not in the last batch read, MissingHere not in that scope; of Unreadable the cloud
	// gave no answer.
	Missing, MissingHere, Unreadable int
	// ExistingSeen and ExistingLost are those that are seen, and those that are not, of the Nodes
	// whose provider IDs are more than what this process found by their names.
	ExistingSeen, ExistingLost int
}

// Limits say how much may be missing at a time.
type Limits struct {
	// Count and Percent: as many Nodes, or that share of them, whichever is more.
	Count, Percent int
	// Settle is how long a greater loss must last until it is believed, where others are seen in
	// the same scope; 0 means that only an operator lets it go.
	Settle time.Duration
}

// Of is how many of the counted Nodes may be missing.
func (l *Limits) Of(c Counts) int {
	return max(l.Count, (c.Seen+c.Missing+c.Unreadable)*l.Percent/100)
}

// Operator is an operator's word: whether what is held goes, or what is wrong with how it was said.
type Operator struct {
	Confirmed bool
	Problem   string
}

// Input is all that a Verdict depends on.
type Input struct {
	Claim    Claim
	Evidence Evidence
	Scope    string // its name, for people
	Counts   Counts
	// Limits are nil where nobody counts Nodes: then only the scope decides.
	Limits *Limits
	// Lasted is for how long more than the limit has been missing while others were seen there.
	Lasted   time.Duration
	Operator Operator
}

// Reason names why a claim is believed (the first two) or held.
type Reason string

// The reasons, as Evaluate gives them.
const (
	Allowed            Reason = "Allowed"
	OperatorConfirmed  Reason = "OperatorConfirmed"
	ScopeUnproven      Reason = "ScopeUnproven"
	NameInForeignScope Reason = "NameInForeignScope"
	TooManyMissing     Reason = "TooManyMissing"
	TooManyUnreadable  Reason = "TooManyUnreadable"
	NoInstanceAtAll    Reason = "NoInstanceAtAll"
)

// Verdict is what Evaluate decides. Message says what is in doubt; empty where nothing is.
type Verdict struct {
	Reason  Reason
	Message string
}

// Allows reports whether the claim is believed.
func (v Verdict) Allows() bool { return v.Reason == Allowed || v.Reason == OperatorConfirmed }

// Evaluate decides whether a claim is believed. The first row that fits decides ("-" fits
// anything, "by name" is "name not found" or "name found", "weak" all but "ID resolved"):
//
//	claim       evidence      existing IDs  limits  loss        settled  seen       missing here  reason
//	not found   none          -             -       -           -        -          -             ScopeUnproven
//	-           -             -             none    -           -        -          -             Allowed
//	by name     weak          lost          -       -           -        -          -             NameInForeignScope
//	name found  -             -             -       -           -        -          -             Allowed
//	-           -             -             -       missing     yes      here       -             Allowed
//	-           -             -             -       missing     -        -          -             TooManyMissing
//	-           -             -             -       unreadable  -        -          -             TooManyUnreadable
//	-           unidentified  -             -       -           -        nobody     -             NoInstanceAtAll
//	-           -             -             some    -           -        nobody     -             NoInstanceAtAll
//	-           -             -             some    -           -        elsewhere  several       NoInstanceAtAll
//	-           -             -             -       -           -        -          -             Allowed
//
// Existing IDs are lost when there are some and none of them is seen. Limits are none, some, or
// 100 %, that is, any loss. A loss is "missing" when more than the limit are, "unreadable" when it
// may be more by those that cannot be read. It has settled when it has lasted for Limits.Settle.
// Whatever is held so becomes OperatorConfirmed by the operator's word.
func Evaluate(in Input) Verdict {
	verdict := in.judge()
	switch {
	case verdict.Allows():
	case in.Operator.Confirmed:
		verdict.Reason = OperatorConfirmed
	case in.Operator.Problem != "":
		verdict.Message += "; " + in.Operator.Problem
	}
	return verdict
}

// judge is Evaluate before the operator's word.
func (in Input) judge() Verdict {
	verdict := Verdict{Reason: Allowed}
	hold := func(reason Reason, format string, args ...any) {
		verdict = Verdict{reason, fmt.Sprintf(format, args...)}
	}
	c, total := in.Counts, in.Counts.Seen+in.Counts.Missing+in.Counts.Unreadable
	switch {
	case in.Claim != NameFound && in.Evidence == NoEvidence:
		hold(ScopeUnproven, "no instance of this cluster was seen in %s yet; check that the credentials and the region are the cluster's own", in.Scope)
	case in.Limits == nil:
	case in.Claim != IDNotFound && in.Evidence != IDResolved && c.ExistingLost > 0 && c.ExistingSeen == 0:
		hold(NameInForeignScope, "none of %d nodes that had a provider ID at start was found there; check that the credentials and the region are the cluster's own", c.ExistingLost)
	case in.Claim == NameFound:
	case c.Missing > in.Limits.Of(c):
		if settled := in.Limits.Settle > 0 && in.Lasted >= in.Limits.Settle; !settled || c.SeenHere == 0 {
			hold(TooManyMissing, "%d of %d nodes have no instance, more than the limit of %d", c.Missing, total, in.Limits.Of(c))
		}
	case c.Missing+c.Unreadable > in.Limits.Of(c):
		hold(TooManyUnreadable, "the instances of %d of %d nodes could not be read", c.Unreadable, total)
	case c.Seen == 0 && (in.Evidence == Unidentified || in.Limits.Percent < 100):
		hold(NoInstanceAtAll, "no instance of the cluster is seen now (nodes: %d)", total)
	case c.SeenHere == 0 && c.MissingHere > 1 && in.Limits.Percent < 100:
		hold(NoInstanceAtAll, "no instance of the cluster is seen in %s any more, and %d nodes were there", in.Scope, c.MissingHere)
	}
	return verdict
}
