package vsphere

import (
	"slices"
	"strings"
)

// reads are the beginnings of what changes nothing but its caller's own session, as Methods has it.
var reads = []string{"Retrieve", "ContinueRetrieve", "CancelRetrieve", "Find", "CurrentTime", "CreateContainerView", "DestroyView", "CreateFilter", "DestroyPropertyFilter",
	"CreatePropertyCollector", "DestroyPropertyCollector", "WaitForUpdates", "CheckForUpdates", "CancelWaitForUpdates", "Login", "Logout", "SessionIsActive", "CloneSession",
	"CnsQuery", "Issue", "GET ", "HEAD ", "POST /session", "DELETE /session", "POST /tagging/tag-association list-", "POST /tagging/tag-association/ID list-", "POST /tagging/tag/ID list-"}

// Changes are the methods that others have called and that may have changed something, in the order of their names.
func (v *VCenter) Changes() (out []string) {
	for name := range v.Methods() {
		if !slices.ContainsFunc(reads, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
