package nodeipam

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
)

func newTestLedger(t testing.TB, c Config) *ledger {
	t.Helper()
	if errs := c.Validate(); len(errs) > 0 {
		t.Fatal(errs)
	}
	m, err := NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	return newLedger(c, m)
}

func mustPrefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestBlocks(t *testing.T) {
	for _, test := range []struct {
		cidr, block string
		bits, n     int
	}{
		{"10.244.0.0/16", "10.244.0.0/24", 24, 0},
		{"10.244.0.0/16", "10.244.255.0/24", 24, 255},
		{"10.0.0.0/8", "10.1.2.3/32", 32, 0x10203},
		{"0.0.0.0/8", "0.1.0.0/16", 16, 1},
		{"fd00::/48", "fd00:0:0:1::/64", 64, 1},
		{"fd00::/48", "fd00:0:0:ffff::/64", 64, 65535},
		{"fd00::/56", "fd00:0:0:1:8000::/66", 66, 6},
		{"fd00::/112", "fd00::ffff/128", 128, 65535},
		{"fd00:1:2:3:4::/80", "fd00:1:2:3:4:7::/96", 96, 7},
	} {
		p := newPool(netip.MustParsePrefix(test.cidr), test.bits)
		if got := p.block(test.n); got.String() != test.block {
			t.Errorf("block %d of %s is %s, want %s", test.n, test.cidr, got, test.block)
		}
		if got := p.index(netip.MustParsePrefix(test.block).Addr()); got != test.n {
			t.Errorf("%s is block %d of %s, want %d", test.block, got, test.cidr, test.n)
		}
	}
}

// When one family is full, nothing of the other one is taken.
func TestAllFamiliesOrNone(t *testing.T) {
	l := newTestLedger(t, Config{ClusterCIDRs: mustPrefixes("10.244.0.0/16", "fd00::/63")})
	for n := range 5 {
		_, err := l.reserve(types.UID(fmt.Sprint(n)))
		var full *fullError
		if (n >= 2) != errors.As(err, &full) {
			t.Fatalf("node %d: %v", n, err)
		}
	}
	if used := l.families[0][0].used; used != 2 {
		t.Errorf("%d IPv4 CIDRs are taken for 2 nodes", used)
	}
	l.release("0")
	if _, err := l.reserve("9"); err != nil {
		t.Errorf("after a node went: %v", err)
	}
}

func TestSeveralCIDRsOfAFamily(t *testing.T) {
	l := newTestLedger(t, Config{ClusterCIDRs: mustPrefixes("10.244.0.0/23", "fd00::/62", "10.99.0.0/24")})
	var got []string
	for n := range 3 {
		h, err := l.reserve(types.UID(fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.cidrs[0].String(), h.cidrs[1].String())
	}
	if want := []string{"10.244.0.0/24", "fd00::/64", "10.244.1.0/24", "fd00:0:0:1::/64", "10.99.0.0/24", "fd00:0:0:2::/64"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := l.reserve("more"); err == nil || err.Error() != "no /24 is left in [10.244.0.0/23 10.99.0.0/24]" {
		t.Errorf("got %v", err)
	}
}

// A CIDR that was freed rests until the others were used.
func TestFreedCIDRsRest(t *testing.T) {
	l := newTestLedger(t, Config{ClusterCIDRs: mustPrefixes("10.244.0.0/22")})
	first, _ := l.reserve("a")
	l.release("a")
	for n := range 3 {
		if h, err := l.reserve(types.UID(fmt.Sprint(n))); err != nil || h.cidrs[0] == first.cidrs[0] {
			t.Errorf("node %d gets %v, %v", n, h.cidrs, err)
		}
	}
	if h, err := l.reserve("last"); err != nil || h.cidrs[0] != first.cidrs[0] {
		t.Errorf("the last node gets %v, %v", h.cidrs, err)
	}
}

// naive is what the ledger shall do, in the simplest way.
type naive struct {
	cluster, services []netip.Prefix
	bits              int
	held              map[types.UID][]netip.Prefix
}

func (m *naive) blocks() []netip.Prefix {
	var out []netip.Prefix
	for _, c := range m.cluster {
		for a := c.Addr(); c.Contains(a); {
			b := netip.PrefixFrom(a, m.bits)
			out = append(out, b)
			for range 1 << (a.BitLen() - m.bits) {
				a = a.Next()
			}
			if !a.IsValid() {
				break
			}
		}
	}
	return out
}

func (m *naive) isFree(block netip.Prefix) bool {
	overlaps := func(p netip.Prefix) bool { return p.Overlaps(block) }
	if slices.ContainsFunc(m.services, overlaps) {
		return false
	}
	for _, cidrs := range m.held {
		if slices.ContainsFunc(cidrs, overlaps) {
			return false
		}
	}
	return true
}

func (m *naive) free() []netip.Prefix {
	return slices.DeleteFunc(m.blocks(), func(b netip.Prefix) bool { return !m.isFree(b) })
}

// runAgainstNaive does what ops say with the ledger and with the model.
func runAgainstNaive(t *testing.T, ops []byte) {
	m := &naive{cluster: mustPrefixes("10.0.0.0/26", "10.0.1.0/27"), services: mustPrefixes("10.0.0.48/29"), bits: 29, held: map[types.UID][]netip.Prefix{}}
	l := newTestLedger(t, Config{ClusterCIDRs: m.cluster, ServiceCIDRs: m.services, MaskSize: m.bits})
	assigned := map[types.UID]bool{}
	for i := 0; i+3 < len(ops); i += 4 {
		uid, free := types.UID(fmt.Sprint(ops[i]%24)), m.free()
		switch ops[i+1] % 4 {
		case 0, 1:
			h, err := l.reserve(uid)
			before, has := m.held[uid]
			switch {
			case has && (err != nil || !slices.Equal(h.cidrs, before)):
				t.Fatalf("op %d: %s has %v and gets %v, %v", i, uid, before, h.cidrs, err)
			case !has && (err == nil) != (len(free) > 0):
				t.Fatalf("op %d: %d blocks are free, and the answer is %v", i, len(free), err)
			case !has && err == nil && !slices.Contains(free, h.cidrs[0]):
				t.Fatalf("op %d: %s is not free: %v", i, h.cidrs[0], m.held)
			}
			if err == nil {
				m.held[uid] = h.cidrs
			}
		case 2: // a Node is seen with a CIDR of any size, inside or outside
			cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, ops[i+2] % 3, ops[i+3]}), 24+int(ops[i+3]+ops[i+2])%9).Masked()
			first, outside, _ := l.observe(uid, []netip.Prefix{cidr})
			if first == assigned[uid] {
				t.Fatalf("op %d: first is %t for a node assigned %t", i, first, assigned[uid])
			}
			inside := slices.ContainsFunc(m.cluster, func(c netip.Prefix) bool { return c.Overlaps(cidr) })
			if first && inside != (len(outside) == 0) {
				t.Fatalf("op %d: %s inside is %t, outside %v", i, cidr, inside, outside)
			}
			if first {
				m.held[uid], assigned[uid] = []netip.Prefix{cidr}, true
			}
		case 3:
			freed := l.release(uid)
			delete(m.held, uid)
			delete(assigned, uid)
			if after := m.free(); freed != (len(after) > len(free)) {
				t.Fatalf("op %d: freed is %t, %d blocks were free and %d are", i, freed, len(free), len(after))
			}
		}
		used := 0
		for _, p := range l.families[0] {
			used += p.used
		}
		if got, want := len(m.blocks())-used, len(m.free()); got != want {
			t.Fatalf("op %d: the ledger says that %d blocks are free, the model %d", i, got, want)
		}
	}
}

func TestLedgerAgainstNaive(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // no secret
	for range 200 {
		ops := make([]byte, 4*300)
		for i := range ops {
			ops[i] = byte(random.Uint32())
		}
		runAgainstNaive(t, ops)
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func FuzzLedger(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 2, 2, 0, 0, 1, 3, 0, 0})
	f.Add([]byte{1, 2, 1, 255, 2, 1, 0, 0, 1, 3, 0, 0, 1, 0, 0, 0})
	f.Fuzz(runAgainstNaive)
}

func BenchmarkReserve(b *testing.B) {
	for b.Loop() {
		l := newTestLedger(b, Config{ClusterCIDRs: mustPrefixes("10.0.0.0/8")})
		for n := range 5000 {
			if _, err := l.reserve(types.UID(fmt.Sprint(n))); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestMetricsStartAtZero: a rate over what became free begins with the first, as one over what was taken does, also on a replica that does not lead.
func TestMetricsStartAtZero(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(r)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{ClusterCIDRs: mustPrefixes("10.244.0.0/16")}
	m.Start(c)
	newLedger(c, m)
	for name, got := range map[string]float64{"taken": testutil.ToFloat64(m.allocations), "freed": testutil.ToFloat64(m.releases), "share": testutil.ToFloat64(m.usage)} {
		if got != 0 {
			t.Errorf("%s: %g", name, got)
		}
	}
	if got := testutil.ToFloat64(m.size); got != 256 {
		t.Errorf("size: %g", got)
	}
	if n, err := testutil.GatherAndCount(r, "node_ipam_controller_cidrset_allocation_tries_per_request"); err != nil || n != 1 {
		t.Errorf("tries: %d series, %v", n, err)
	}
}
