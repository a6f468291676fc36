package snapshot

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Know gives symbols to what is in the cloud, as Read does.
func (c *Cloud) Know(symbols *symbol.Symbols) error {
	all, err := c.contents()
	if err != nil {
		return err
	}
	all.name(symbols)
	return nil
}

// Restore makes in the cloud what a State, as it is read from JSON, holds of it, and gives symbols their new values. What is given,
// instances among it, must be there, and the names of the Services' load balancers must have symbols.
func (c *Cloud) Restore(symbols *symbol.Symbols, s State) error {
	r := &restorer{Cloud: c, symbols: symbols, text: Compact(s)}
	given, err := c.EC2.SecurityGroups(c.Given[:1])
	if err != nil {
		return err
	}
	r.vpc = given[0].VPCID
	for _, kind := range []struct {
		name string
		make func(name string, o Object) error
	}{{"sg", r.securityGroup}, {"classic", r.classic}, {"network", r.network}, {"group", r.spareGroup}, {"instance", r.instance}, {"route", r.route}} {
		for _, name := range sorted(s[kind.name]) {
			if err := kind.make(name, object(s[kind.name], name)); err != nil {
				return fmt.Errorf("restore %s %s: %w", kind.name, name, err)
			}
		}
	}
	for _, key := range sorted(s["rule"]) { // last: they name the groups of others
		group, rule, _ := strings.Cut(key, " ")
		if err := r.rules(group, Object{rule: s["rule"][key]}); err != nil {
			return fmt.Errorf("restore rule %s: %w", key, err)
		}
	}
	return nil
}

// restorer makes what one State holds.
type restorer struct {
	*Cloud
	symbols   *symbol.Symbols
	text, vpc string
}

func sorted(o Object) []string { return slices.Sorted(maps.Keys(o)) }

func object(o Object, key string) Object {
	out, _ := o[key].(Object)
	return out
}

func text(o Object, key string) string {
	out, _ := o[key].(string)
	return out
}

func number(o Object, key string) int {
	out, _ := o[key].(float64)
	return int(out)
}

// list is a list of texts.
func list(o Object, key string) (out []string) {
	items, _ := o[key].([]any)
	for _, v := range items {
		if s, is := v.(string); is {
			out = append(out, s)
		}
	}
	return out
}

// pairs are the texts of an object.
func pairs(o Object) map[string]string {
	out := map[string]string{}
	for k := range o {
		out[k] = text(o, k)
	}
	return out
}

// expand puts the values into texts with symbols.
func (r *restorer) expand(texts []string) ([]string, error) {
	out := make([]string, len(texts))
	for i, t := range texts {
		var err error
		if out[i], err = r.symbols.Expand(t); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// stands makes the symbol of a value be the one that the State has for it: one that was made a second time has a number.
func (r *restorer) stands(symbol, value string) {
	if found := regexp.MustCompile(`\{(` + regexp.QuoteMeta(symbol) + `#\d+)\}`).FindStringSubmatch(r.text); found != nil {
		symbol = found[1]
	}
	r.symbols.Add(symbol, value)
}

func (r *restorer) securityGroup(name string, o Object) error {
	texts, err := r.expand([]string{name, text(o, "description")})
	if err != nil {
		return err
	}
	made := r.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: r.vpc, Name: texts[0], Description: texts[1], Tags: pairs(object(o, "tags"))})
	r.stands("sg:"+strings.NewReplacer("{", "", "}", "").Replace(name), made.ID)
	return r.rules(made.ID, object(o, "rules"))
}

var ruleForm = regexp.MustCompile(`^(\S+) (-?\d+)-(-?\d+) from (\S+)$`)

// rules adds rules, by their text, with their descriptions to a group.
func (r *restorer) rules(group string, rules Object) error {
	var out []ec2.Rule
	for _, key := range sorted(rules) {
		found := ruleForm.FindStringSubmatch(key)
		if found == nil {
			return fmt.Errorf("rule %q is of no form that is known", key)
		}
		texts, err := r.expand([]string{found[4], text(rules, key)})
		if err != nil {
			return err
		}
		from, _ := strconv.Atoi(found[2])
		to, _ := strconv.Atoi(found[3])
		rule := ec2.Rule{Protocol: found[1], FromPort: from, ToPort: to, Description: texts[1]}
		switch {
		case strings.HasPrefix(texts[0], "sg-"):
			rule.Group = texts[0]
		case strings.HasPrefix(texts[0], "pl-"):
			rule.PrefixList = texts[0]
		case strings.Contains(texts[0], ":"):
			rule.CIDR6 = texts[0]
		default:
			rule.CIDR = texts[0]
		}
		out = append(out, rule)
	}
	_, err := r.EC2.Authorize(group, out)
	return err
}

// instance restores what managers change of an instance.
func (r *restorer) instance(id string, o Object) error {
	if tags := pairs(object(o, "tags")); len(tags) > 0 {
		if err := r.EC2.CreateTags([]string{id}, tags); err != nil {
			return err
		}
	}
	found, err := r.EC2.Instances([]string{id})
	if err != nil {
		return err
	}
	n := found[0].Primary()
	if o["forwards"] != true || n == nil {
		return nil
	}
	forwards := true
	return r.EC2.ModifyInterface(n.ID, &forwards, nil)
}

// route adds a route unless it is given. What its state is follows from its instance.
func (r *restorer) route(destination string, o Object) error {
	tables, err := r.EC2.RouteTables([]string{r.Table})
	if err != nil || slices.ContainsFunc(tables[0].Routes, func(there ec2.Route) bool { return there.Destination == destination }) {
		return err
	}
	route := ec2.Route{Destination: destination, InstanceID: text(o, "instance"), GatewayID: text(o, "gateway")}
	if found, err := r.EC2.Instances([]string{route.InstanceID}); err == nil && found[0].Primary() != nil {
		route.InterfaceID = found[0].Primary().ID
	}
	r.EC2.AddRoute(r.Table, route)
	return nil
}
