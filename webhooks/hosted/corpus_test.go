package hosted_test

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
	"github.com/isthmus-cloud/isthmus/webhooks/service"
)

// largest is how many bytes the bodies of the corpus have about: as many as are accepted.
const largest = 3<<20 - 4096

// attack is a request that costs more to answer than to send.
type attack struct{ path, body string }

// of returns a review by which path is asked about an object, and the object that there was.
func of(path, object, old string) attack {
	kind, operation := "PersistentVolume", "CREATE"
	if path == service.Path {
		kind = "Service"
	}
	if old != "" {
		operation, old = "UPDATE", `,"oldObject":`+old
	}
	return attack{path, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"version":"v1","kind":"` + kind +
		`"},"operation":"` + operation + `","object":` + object + old + `}}`}
}

// repeat repeats an item, with %d in it as its number, until there are n or they fill a body.
func repeat(item string, n int) string {
	var b bytes.Buffer
	for i := 0; i < n && b.Len()+len(item)+8 < largest; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(item, "%d") {
			fmt.Fprintf(&b, item, i)
		} else {
			b.WriteString(item)
		}
	}
	return b.String()
}

const many, all = 32_000, 1 << 30

func svc(metadata, spec string) string {
	return `{"metadata":{"name":"x","namespace":"y"` + metadata + `},"spec":{"type":"LoadBalancer"` + spec + `}}`
}

func annotated(annotations string) string {
	return svc(`,"annotations":{`+annotations+`}`, `,"ports":[{"port":80,"nodePort":30080}]`)
}

func ports(port string, n int) string { return svc("", `,"ports":[`+repeat(port, n)+`]`) }

const volume = `"cinder":{"volumeID":"01234567-89ab-cdef-0123-456789abcdef"}`

func pv(metadata, spec string) string {
	return `{"metadata":{"name":"x"` + metadata + `},"spec":{` + volume + spec + `}}`
}

func affinity(terms string) string {
	return pv(`,"annotations":{"pv.kubernetes.io/provisioned-by":"p"},"labels":{"topology.kubernetes.io/zone":"z","topology.kubernetes.io/region":"r"}`,
		`,"nodeAffinity":{"required":{"nodeSelectorTerms":[`+terms+`]}}`)
}

// attacks are what one request was found or may be thought to cost much by.
func attacks() map[string]attack {
	const s, p, lbPrefix = service.Path, pvlabel.Path, "loadbalancer.openstack.org/"
	long := strings.Repeat("x", largest)
	head := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u",`
	out := map[string]attack{
		// of the review
		"array of numbers":            {p, `{"request":{"uid":"u","object":` + `[` + repeat("1", all) + `]}}`},
		"array of objects":            of(s, ports("{}", all), ""),
		"array as object":             of(s, `[`+repeat("1", all)+`]`, ""),
		"deep arrays":                 {s, head + `"object":` + strings.Repeat("[", largest)},
		"deep objects":                {s, head + `"object":` + strings.Repeat(`{"a":`, largest/5)},
		"groups":                      {p, head + `"userInfo":{"groups":[` + repeat(`""`, all) + `]}}}`},
		"extra":                       {p, head + `"userInfo":{"extra":{` + repeat(`"%d":[]`, all) + `}}}}`},
		"extra, few enough":           {p, head + `"userInfo":{"extra":{` + repeat(`"%d":[]`, many) + `}}}}`},
		"groups, few enough":          {p, head + `"userInfo":{"groups":[` + repeat(`""`, many) + `]}}}`},
		"repeated object":             {s, head + repeat(`"object":{}`, all) + `}}`},
		"repeated object, few enough": {s, head + repeat(`"object":{"a":"`+long[:200]+`"}`, many/4) + `}}`},
		"long user":                   {p, head + `"userInfo":{"username":"` + long + `"}}}`},
		"long uid":                    {p, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"` + long + `"}}`},
		"long kind":                   {p, `{"kind":"` + long + `"}`},
		"long operation":              {p, head + `"operation":"` + long + `"}}`},
		"long member":                 {p, head + `"` + long + `":1}}`},
		"long number":                 {p, head + `"x":` + strings.Repeat("1", largest) + `}}`},
		"long exponent":               {p, head + `"x":1e` + strings.Repeat("9", largest) + `}}`},
		"texts, short enough": {p, head + `"name":"` + long[:500_000] + `","namespace":"` + long[:500_000] + `","operation":"` + long[:500_000] + `","userInfo":{"username":"` +
			long[:500_000] + `","uid":"` + long[:500_000] + `"}}}`},
		"uid, short enough":            {p, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"` + long[:500_000] + `"}}`},
		"not UTF-8":                    {p, head + `"name":"` + strings.Repeat("\xff", largest) + `"}}`},
		"escapes":                      of(s, svc(`,"generateName":"`+strings.Repeat(`\u0000`, largest/6)+`"`, ""), ""),
		"blanks":                       {p, strings.Repeat(" ", largest)},
		"never closed":                 {p, head + `"name":"` + long},
		"text of quotes":               {p, head + `"name":"` + strings.Repeat(`\"`, largest/2) + `"}}`},
		"other kind, with a long name": {p, head + `"operation":"CREATE","kind":{"kind":"` + long + `"}}}`},

		// of Services
		"20,000 ports":               of(s, ports(`{"port":80,"protocol":"X"}`, 20_000), ""),
		"ports, few enough":          of(s, ports(`{"port":0,"protocol":"X"}`, 10_000), ""),
		"1,000 ports of odd text":    of(s, ports(`{"port":0,"protocol":"`+strings.Repeat("<", 2000)+`"}`, 1000), ""),
		"ports, all changed":         of(s, ports(`{"port":0,"protocol":"X"}`, 5000), ports(`{"port":0,"protocol":"Y"}`, 5000)),
		"ports, nothing changed":     of(s, ports(`{"port":%d}`, 7000), ports(`{"port":%d}`, 7000)),
		"90 kB of annotations":       of(s, annotated(repeat(`"loadbalancer.openstack.org/network-%d":""`, 2000)), ""),
		"annotations of others":      of(s, annotated(repeat(`"service.beta.kubernetes.io/openstack-internal-load-%d":""`, 4000)), ""),
		"annotations, few enough":    of(s, annotated(repeat(`"a%d":""`, many-10)), ""),
		"annotations, changed":       of(s, annotated(repeat(`"loadbalancer.openstack.org/network-%d":"1"`, 2500)), annotated(repeat(`"loadbalancer.openstack.org/network-%d":"2"`, 2500))),
		"long annotation":            of(s, annotated(`"`+lbPrefix+`subnet-id":"`+long+`"`), ""),
		"long annotation name":       of(s, annotated(`"`+lbPrefix+long[:1000]+`":""`), ""),
		"annotation of ranges":       of(s, annotated(`"service.beta.kubernetes.io/load-balancer-source-ranges":"`+strings.Repeat("::/1,", 50_000)+`"`), ""),
		"annotation of wrong ranges": of(s, annotated(`"service.beta.kubernetes.io/load-balancer-source-ranges":"`+strings.Repeat("x,", 120_000)+`"`), ""),
		"selector":                   of(s, annotated(`"`+lbPrefix+`node-selector":"`+strings.Repeat("a=b,", 50_000)+`"`), ""),
		"pattern":                    of(s, annotated(`"`+lbPrefix+`floating-subnet":"~`+strings.Repeat("(x*)*", 40_000)+`"`), ""),
		"pattern that repeats":       of(s, annotated(`"`+lbPrefix+`floating-subnet":"~((((x{10}){10}){10}){10})"`), ""),
		"source ranges":              of(s, svc("", `,"ports":[{"port":80}],"loadBalancerSourceRanges":[`+repeat(`"10.0.0.0/%d"`, many-10)+`]`), ""),
		"ranges of each family": of(s, svc("", `,"ports":[{"port":80}],"ipFamilies":[`+repeat(`"IPv6"`, many/2)+`],"loadBalancerSourceRanges":[`+
			repeat(`"10.0.%d.0/24"`, 250)+`,`+repeat(`"10.0.0.0/24"`, many/2-500)+`,"::/0"]`), ""),
		"cluster IPs":        of(s, svc("", `,"ports":[{"port":80}],"clusterIPs":[`+repeat(`"::%d"`, many-10)+`]`), ""),
		"managed fields":     of(s, svc(`,"managedFields":[`+repeat(`{"fieldsV1":{}}`, many/2)+`]`, ""), ""),
		"owners":             of(s, svc(`,"ownerReferences":[`+repeat(`{}`, many-10)+`]`, ""), ""),
		"conditions":         of(s, `{"status":{"conditions":[`+repeat(`{}`, many-10)+`]},`+ports(`{}`, 1)[1:], ""),
		"ingress":            of(s, `{"status":{"loadBalancer":{"ingress":[`+repeat(`{"ports":[{}]}`, many/4)+`]}},`+ports(`{}`, 1)[1:], ""),
		"long class":         of(s, svc("", `,"loadBalancerClass":"isthmus-cloud.github.io/openstack-`+long[:largest-1000]+`"`), ""),
		"long IP":            of(s, svc("", `,"ports":[{"port":80}],"loadBalancerIP":"`+long[:largest-1000]+`"`), ""),
		"time, short enough": of(s, svc(`,"creationTimestamp":"`+long[:500_000]+`"`, ""), ""),
		"kinds, short enough": {s, head + `"operation":"CREATE","kind":{"group":"` + strings.Repeat("<", 500_000) + `","version":"` + strings.Repeat("<", 500_000) +
			`","kind":"` + strings.Repeat("<", 500_000) + `"}}}`},
		"time":          of(s, svc(`,"creationTimestamp":"`+long[:largest-1000]+`"`, ""), ""),
		"app protocols": of(s, ports(`{"port":1,"appProtocol":"x","targetPort":"y"}`, 6000), ""),

		// of PersistentVolumes
		"quantity":              of(p, pv("", `,"capacity":{"storage":"1e2147483647"}`), ""),
		"quantity of digits":    of(p, pv("", `,"capacity":{"storage":"`+strings.Repeat("9", largest-1000)+`"}`), ""),
		"quantities":            of(p, pv("", `,"capacity":{`+repeat(`"%d":"1e-999999"`, many-10)+`}`), ""),
		"terms":                 of(p, affinity(repeat("{}", all)), ""),
		"terms, few enough":     of(p, affinity(repeat("{}", many-30)), ""),
		"100 terms":             of(p, affinity(repeat(`{"matchExpressions":[{"key":"k","operator":"In","values":["`+long[:20_000]+`"]}]}`, 100)), ""),
		"expressions":           of(p, affinity(`{"matchExpressions":[`+repeat(`{"key":"%d"}`, many/2-30)+`]}`), ""),
		"values of expressions": of(p, affinity(`{"matchExpressions":[{"key":"k","operator":"In","values":[`+repeat(`"%d"`, many-30)+`]}]}`), ""),
		"zones in a label": of(p, pv(`,"annotations":{"pv.kubernetes.io/provisioned-by":"p"},"labels":{"topology.kubernetes.io/region":"r","topology.kubernetes.io/zone":"`+
			strings.Repeat("a__", largest/3-500)+`"}`, ""), ""),
		"labels":                of(p, pv(`,"labels":{`+repeat(`"%d":""`, many-30)+`}`, ""), ""),
		"long volume ID":        of(p, `{"spec":{"cinder":{"volumeID":"`+long[:largest-1000]+`"}}}`, ""),
		"long PV name":          of(p, `{"metadata":{"name":"`+strings.Repeat("<", largest-1000)+`"},"spec":{"cinder":{"volumeID":"x"}}}`, ""),
		"PV name, short enough": of(p, `{"metadata":{"name":"`+strings.Repeat("<", 500_000)+`"},"spec":{"cinder":{"volumeID":"x"}}}`, ""),
		"PV labels, short enough": of(p, `{"metadata":{"labels":{"failure-domain.beta.kubernetes.io/zone":"`+strings.Repeat("<", 500_000)+`"},"name":"`+
			strings.Repeat("<", 500_000)+`"},"spec":{`+volume+`}}`, ""),
		"CSI attributes": of(p, `{"spec":{"csi":{"driver":"cinder.csi.openstack.org","volumeAttributes":{`+repeat(`"%d":""`, many-30)+`}}}}`, ""),
	}
	return out
}
