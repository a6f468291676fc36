package play

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
)

// Calls is how many calls of the simulator's log have changed the cloud, and how many calls are not answered.
func Calls(log []awssim.Request) (all, open int) {
	for _, r := range log {
		switch {
		case r.Service == "imds":
		case r.Status == 0:
			open++
		case Changes(r) && r.Status < 400:
			all++
		}
	}
	return all, open
}

// Changes says that a request would change the cloud.
func Changes(r awssim.Request) bool {
	return r.Service != "imds" && r.Service != "sts" && !strings.HasPrefix(r.Action, "Describe")
}

// ARNs of target groups are of no use to those who read them: their names tell whose they are.
var arn = regexp.MustCompile(`arn:aws:elasticloadbalancing:[a-z0-9-]+:\d+:(targetgroup|loadbalancer|listener)/(?:net/)?((?:\{[^}]*\}|[^/ ])+)(?:/[0-9a-f]{16})+`)

// By are the calls of a log that would have changed the cloud, by scenario and with symbols; those of no scenario are under "". done says
// that those that were refused are left out.
func (p *Player) By(log []awssim.Request, done bool) map[string][]string {
	for _, r := range log { // those that are gone by now
		if r.Action == "CreateTargetGroup" {
			p.groups[r.Form.Get("Name")] = tagOf(r, "kubernetes.io/service-name")
		}
	}
	out := map[string][]string{}
	for _, r := range log {
		if !Changes(r) || done && r.Status >= 400 {
			continue
		}
		for _, params := range parts(r) {
			text := p.text(r.Service+" "+r.Action, params)
			name := p.owner(params, text)
			out[name] = append(out[name], text)
		}
	}
	return out
}

// tagOf is the value of a tag that a call gives.
func tagOf(r awssim.Request, key string) string {
	for k := range r.Form {
		if r.Form.Get(k) == key && strings.HasSuffix(k, ".Key") {
			return r.Form.Get(strings.TrimSuffix(k, ".Key") + ".Value")
		}
	}
	return ""
}

// rule is a parameter of a permission, and one of one of its sources.
var rule = regexp.MustCompile(`^(IpPermissions\.\d+\.)(?:((?:IpRanges|Ipv6Ranges|Groups|PrefixListIds)\.\d+)\.)?(\w+)$`)

// parts are the parameters of a call. One that is about several rules of a security group, which may be those of several Services,
// has a part for each.
func parts(r awssim.Request) (out []map[string]string) {
	plain, permissions, sources := map[string]string{}, map[string]map[string]string{}, map[string]map[string]string{}
	for k := range r.Form {
		found := rule.FindStringSubmatch(k)
		switch {
		case k == "Action" || k == "Version":
		case found == nil:
			plain[k] = r.Form.Get(k)
		case found[2] == "":
			put(permissions, found[1], found[3], r.Form.Get(k))
		default:
			put(sources, found[1]+found[2], "Source."+found[3], r.Form.Get(k))
		}
	}
	for _, source := range slices.Sorted(maps.Keys(sources)) {
		part := maps.Clone(plain)
		for permission, params := range permissions {
			if strings.HasPrefix(source, permission) {
				maps.Copy(part, params)
			}
		}
		maps.Copy(part, sources[source])
		out = append(out, part)
	}
	if len(out) == 0 {
		out = append(out, plain)
	}
	return out
}

func put(into map[string]map[string]string, at, key, value string) {
	if into[at] == nil {
		into[at] = map[string]string{}
	}
	into[at][key] = value
}

// text is a part of a call as it is told.
func (p *Player) text(action string, params map[string]string) string {
	words := []string{action}
	for _, k := range slices.Sorted(maps.Keys(params)) {
		words = append(words, k+":"+params[k])
	}
	text := p.Place.Symbols.Fold(strings.Join(words, " "))
	return arn.ReplaceAllStringFunc(text, func(found string) string {
		kind, name := arn.FindStringSubmatch(found)[1], arn.FindStringSubmatch(found)[2]
		if kind == "targetgroup" {
			return fmt.Sprintf("{group:%s %s}", p.groups[name], name)
		}
		return kind + " " + name
	})
}

// owner is the scenario that a part of a call is about.
func (p *Player) owner(params map[string]string, text string) string {
	if name := snapshot.OwnerOf(strings.ReplaceAll(text, "sg:k8s-elb-lb:", "sg:"), p.Group.Names()); name != "" {
		return name
	}
	for _, v := range params {
		if found, err := p.Place.Cloud.EC2.Interfaces([]string{v}); err == nil {
			v = found[0].InstanceID
		}
		if name := p.instances[v]; name != "" {
			return name
		}
		if name := p.routes[v]; name != "" {
			return name
		}
	}
	return ""
}
