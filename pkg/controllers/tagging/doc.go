// Package tagging gives the instances behind Nodes the tags that the user wishes (--tags), and takes them away from those whose
// Nodes are gone.
//
// It keeps to the existing manager's record, so that either can go on where the other has ended: a label of the Node holds the sum
// of the tags that its instance has got. What is known so needs no call. All Nodes that lack it are tagged together, in as few
// calls as the cloud has; what fails comes again, more and more seldom.
//
// It removes no tag that it has not set: only tags with just the values that it sets, of instances whose Nodes had the label with
// their sum. Tags that --tags does not name any more stay, as nobody knows that they were set by it; and so do those of Nodes that
// vanish while no leader watches.
package tagging
