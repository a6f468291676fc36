package difference

import "github.com/isthmus-cloud/isthmus/test/differential/compare"

// TakingBack is all that OCCM does then to what ours has left, Services aside that it cannot serve.
func TakingBack() []compare.Exception {
	return []compare.Exception{
		{
			Name:  "health monitors that nobody asks for",
			What:  "OCCM takes the health monitors of `externalTrafficPolicy: Local` away that nobody asks for by annotation or cloud.conf.",
			Why:   "Without them it sends connections to Nodes that have no endpoint; `create-monitor` keeps them.",
			Match: `(?s)(.*local.*|ro-(8|9|11|21|23)): (DELETE /lbaas/healthmonitors/|PUT /lbaas/pools/[^ ]*/members ).*`,
		},
		{
			Name:  "listeners of dual-stack Services",
			What:  "OCCM restricts the listeners of a dual-stack Service to the addresses of its first family.",
			Why:   "It does not know of the second VIP; see that Octavia can do it before going back, or make such Services single-stack.",
			Match: `(?s)(d|n-mixed-ip-f)-(46|64)[a-z-]*: PUT /lbaas/listeners/.*"allowed_cidrs".*`,
		},
		{
			Name:  "numbers of 0",
			What:  "OCCM writes a health monitor again, without the number that is asked for as 0.",
			Why:   "It compares with 0, which it leaves out of what it writes: nothing changes, each time anew.",
			Match: `h-(delay|timeout|down)-o-2: PUT /lbaas/healthmonitors/.*`,
		},
		{
			Name:  "selectors that OCCM does not understand",
			What:  "OCCM takes all members out of the pools of a Service whose `node-selector` it does not understand, such as `zone!=a`.",
			Why:   "By it OCCM selects no Node.",
			Match: `(?s)(o-selector-[0-9]+|p-11): PUT /lbaas/pools/[^ ]*/members .*`,
		},
		{
			Name:  "load balancers of the same name",
			What:  "OCCM takes a load balancer of the Service's name that ours has left alone.",
			Why:   "A name is enough for it.",
			Match: `(?s)g-name(-tag)?: .*`,
		},
		{
			Name:  "floating IPs that others publish",
			What:  "OCCM deletes the floating IP of an owner that has become internal, which others publish.",
			Why:   "It does not look at the others.",
			Match: `sh-owner-turns: DELETE /floatingips/.*`,
		},
	}
}
