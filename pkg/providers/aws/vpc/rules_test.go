package vpc

import (
	"net/netip"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRulesAreTakenApartAndPutTogether(t *testing.T) {
	in := []types.IpPermission{
		{IpProtocol: aws.String("-1"), UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: aws.String("sg-1"), UserId: aws.String("111122223333")}, {GroupId: aws.String("sg-2"), Description: aws.String("d")}}},
		{IpProtocol: aws.String("50"), IpRanges: []types.IpRange{{CidrIp: aws.String("10.0.0.0/8")}}},
		{IpProtocol: aws.String("icmp"), FromPort: aws.Int32(3), ToPort: aws.Int32(4), IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}},
		{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(80), ToPort: aws.Int32(80), IpRanges: []types.IpRange{{CidrIp: aws.String("10.0.0.0/8")}, {CidrIp: aws.String("192.0.2.0/24"), Description: aws.String("d")}},
			Ipv6Ranges: []types.Ipv6Range{{CidrIpv6: aws.String("2001:db8::/32")}}, PrefixListIds: []types.PrefixListId{{PrefixListId: aws.String("pl-1")}}},
		{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(80), ToPort: aws.Int32(81), IpRanges: []types.IpRange{{CidrIp: aws.String("10.0.0.0/8")}}},
	}
	apart := atomsIn(in)
	if len(apart) != 9 || apart[fromGroup("sg-2")] != "d" || apart[atom{"tcp", 80, 80, "192.0.2.0/24"}] != "d" {
		t.Errorf("%v", apart)
	}
	in[0].UserIdGroupPairs[0].UserId = nil // a group's ID says whose it is
	if diff := cmp.Diff(in, apart.permissions(), cmpopts.IgnoreUnexported(types.IpPermission{}, types.IpRange{}, types.Ipv6Range{}, types.PrefixListId{}, types.UserIdGroupPair{})); diff != "" {
		t.Errorf("put together (-want +got):\n%s", diff)
	}
	want := atomsOf([]Rule{{Protocol: "-1", Groups: []string{"sg-1"}}, {Protocol: "tcp", From: 80, To: 80, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.2.3/8")}, Description: "other"}})
	add, drop := difference(apart, want)
	if len(add) != 0 || len(drop) != 7 {
		t.Errorf("descriptions count: add %v, drop %v", add, drop)
	}
}

// of are rules for the plan.
func of(pairs ...any) atoms {
	out := atoms{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i].(atom)] = pairs[i+1].(string)
	}
	return out
}

func TestPlanOfAGroup(t *testing.T) {
	client := func(port int32, source string) atom { return atom{"tcp", port, port, source} }
	mtu := func(source string) atom { return atom{"icmp", 3, 4, source} }
	const one, two = clientRule + "=a1", clientRule + "=a2"
	everyone := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	a1 := NodeRules{LoadBalancer: "a1", Protocol: "tcp", Ports: []int32{1}, HealthPorts: []int32{1}, Clients: everyone, Subnets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}
	with := func(r NodeRules) tenant { return tenant{NodeRules: r, wishes: map[string]wish{"sg": r.wish()}} }
	gone := func(r NodeRules) tenant { return tenant{NodeRules: r, gone: true} }
	for name, tt := range map[string]struct {
		has     atoms
		tagged  bool
		tenants []tenant
		others  atoms
		want    change
	}{
		"new":                          {of(), true, []tenant{with(a1)}, nil, change{add: of(client(1, "0.0.0.0/0"), one, mtu("0.0.0.0/0"), mtuRule)}},
		"there":                        {of(client(1, "0.0.0.0/0"), one, mtu("0.0.0.0/0"), mtuRule), true, []tenant{with(a1)}, nil, change{}},
		"a covered check stays":        {of(client(1, "0.0.0.0/0"), one, mtu("0.0.0.0/0"), mtuRule, client(1, "10.0.0.0/24"), healthRule+"=a1"), true, []tenant{with(a1)}, nil, change{}},
		"somebody's own rule serves":   {of(client(1, "0.0.0.0/0"), "mine", mtu("0.0.0.0/0"), ""), true, []tenant{with(a1)}, nil, change{}},
		"it goes":                      {of(client(1, "0.0.0.0/0"), one, mtu("0.0.0.0/0"), mtuRule), true, []tenant{gone(a1)}, nil, change{drop: of(client(1, "0.0.0.0/0"), one, mtu("0.0.0.0/0"), mtuRule)}},
		"others' rules stay":           {of(client(1, "0.0.0.0/0"), one, client(2, "0.0.0.0/0"), two, mtu("0.0.0.0/0"), mtuRule), true, []tenant{gone(a1)}, nil, change{drop: of(client(1, "0.0.0.0/0"), one)}},
		"nothing of it":                {of(mtu("10.0.0.0/8"), mtuRule), true, []tenant{gone(a1)}, nil, change{}},
		"another one needs it":         {of(client(1, "0.0.0.0/0"), one, mtu("0.0.0.0/0"), mtuRule), true, []tenant{gone(a1)}, of(client(1, "0.0.0.0/0"), two), change{drop: of(client(1, "0.0.0.0/0"), one), again: of(client(1, "0.0.0.0/0"), two)}},
		"a group's rule in a free one": {of(fromGroup("sg-1"), ""), false, []tenant{{NodeRules: NodeRules{Source: "sg-1"}}}, nil, change{}},
		"a group's rule in a tagged":   {of(fromGroup("sg-1"), ""), true, []tenant{{NodeRules: NodeRules{Source: "sg-1"}}}, nil, change{drop: of(fromGroup("sg-1"), "")}},
		"a shared group's rule":        {of(fromGroup("sg-1"), ""), true, []tenant{gone(NodeRules{Source: "sg-1", SharedSource: true})}, nil, change{}},
		"a group's own rule":           {of(fromGroup("sg"), ""), true, []tenant{gone(NodeRules{Source: "sg"})}, nil, change{}},
		"a former group":               {of(fromGroup("sg-1"), ""), false, []tenant{gone(NodeRules{Former: "sg-1"})}, nil, change{drop: of(fromGroup("sg-1"), "")}},
		"a former shared group":        {of(fromGroup("sg-1"), ""), true, []tenant{gone(NodeRules{SharedFormer: "sg-1"})}, nil, change{drop: of(fromGroup("sg-1"), "")}},
		"… of what is not tagged":      {of(fromGroup("sg-1"), ""), false, []tenant{gone(NodeRules{SharedFormer: "sg-1"})}, nil, change{}},
		"… of what others describe":    {of(fromGroup("sg-1"), "mine"), true, []tenant{gone(NodeRules{SharedFormer: "sg-1"})}, nil, change{}},
		"… that is wanted":             {of(fromGroup("sg-1"), ""), true, []tenant{gone(NodeRules{SharedFormer: "sg-1"})}, of(fromGroup("sg-1"), ""), change{}},
		"… of the group itself":        {of(fromGroup("sg"), ""), true, []tenant{gone(NodeRules{SharedFormer: "sg"})}, nil, change{}},
		"a frozen Service's":           {of(client(1, "0.0.0.0/0"), one, mtu("0.0.0.0/0"), mtuRule), true, []tenant{with(NodeRules{LoadBalancer: "a1", Frozen: true})}, nil, change{}},
		"another port of the group":    {of(atom{"tcp", 22, 22, "sg-1"}, ""), true, []tenant{gone(NodeRules{Former: "sg-1"})}, nil, change{}},
	} {
		if tt.others == nil {
			tt.others = atoms{}
		}
		got := groupRules{id: "sg", has: tt.has, tagged: tt.tagged}.plan(indexed(tt.tenants), tt.others)
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(change{}, atom{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
