//go:build e2e

package page

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/test/eventually"
)

var picture = flag.Bool("picture", false, "take the picture in docs/guides anew")

// shown is what the browser makes of the page.
type shown struct {
	Title string
	// Sections are the texts under each heading, Headings their texts.
	Headings, Sections []string
	// Elements and Attributes are the names of all there are.
	Elements, Attributes []string
}

const look = `(() => {
	const all = [...document.querySelectorAll("*")], sections = [];
	for (const h of document.querySelectorAll("h2")) {
		let text = "";
		for (let e = h.nextElementSibling; e && e.tagName != "H2"; e = e.nextElementSibling) text += e.innerText + "\n";
		sections.push(text);
	}
	return {title: document.title, headings: [...document.querySelectorAll("h2")].map(h => h.innerText), sections,
		elements: [...new Set(all.map(e => e.localName))].sort(), attributes: [...new Set(all.flatMap(e => e.getAttributeNames()))].sort()};
})()`

// section is what is under the heading that begins so.
func (s *shown) section(heading string) string {
	i := slices.IndexFunc(s.Headings, func(h string) bool { return strings.HasPrefix(h, heading) })
	if i < 0 {
		return ""
	}
	return s.Headings[i] + "\n" + s.Sections[i]
}

// TestPage: who may reads it in a browser what the manager has met, as text alone.
func TestPage(t *testing.T) {
	w := newWorld(t)
	reader, nobody := w.token("reader", "/status"), w.token("nobody", "/metrics")
	w.play()
	b := open(t, w.publicKey)
	var page shown
	eventually.Met(t, func() string {
		if got := b.visit(w.url, reader); got != http.StatusOK {
			return http.StatusText(got)
		}
		b.eval(&page, look)
		return lacking(&page)
	})
	checkHarmless(t, b, w.url, &page)
	if *picture {
		takePicture(t, b)
	}
	b.do(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true})
	b.visit(w.url, reader)
	var widths struct{ Window, Page float64 }
	b.eval(&widths, "({window: window.innerWidth, page: document.documentElement.scrollWidth})")
	if widths.Window != 390 || widths.Page > 390 {
		t.Errorf("on a telephone of 390 pixels the page has %g, in a window of %g", widths.Page, widths.Window)
	}
	if got := b.visit(w.url, ""); got != http.StatusUnauthorized {
		t.Errorf("without a token: %d", got)
	}
	if got := b.visit(w.url, nobody); got != http.StatusForbidden {
		t.Errorf("with a token that may not: %d", got)
	}
}

// lacking is what of the world the page does not show.
func lacking(page *shown) string {
	var out []string
	for heading, texts := range map[string][]string{
		"Nodes: 6, 1 waiting":                   {"worker-0", "openstack:///", "not-in-the-cloud", "waits for the cloud's data", "elsewhere", "other:///" + hostile, "another cloud's"},
		"Load balancers: 2, 1 waiting":          {"default/shop", "has an address", "default/over-quota", "waits for an address"},
		"Routes: 4":                             {"worker-3", "10.244.3.0/24", "routed"},
		"Volumes: 2, 1 waiting":                 {"data", "az1", "has its place", "throttled", "lacks its zone"},
		"Queues":                                {"service"},
		"Requests to the cloud: 5, 1 throttled": {"volume", "throttled until", "compute", "free"},
		"Last errors":                           {"service/default/over-quota", "SyncLoadBalancerFailed", "Quota has been met", hostile, "node/", "validatingwebhookconfiguration/isthmus", "NotOurs"},
		"Webhooks":                              {"isthmus_webhook_registration_up_to_date", "isthmus_webhook_certificate_expiration_timestamp_seconds"},
		"Counted":                               {"isthmus_cloud_nodes_held"},
	} {
		section := page.section(heading)
		for _, text := range append(texts, heading) {
			if !strings.Contains(section, text) {
				out = append(out, heading+" lacks "+text)
			}
		}
	}
	if len(out) > 0 {
		out = append(out, strings.Join(page.Headings, "; "), strings.Join(page.Sections, "\n"))
	}
	return strings.Join(out, "\n")
}

// checkHarmless: the page is of a few elements, asks for nothing, and the browser has nothing to complain about.
func checkHarmless(t *testing.T, b *browser, url string, page *shown) {
	t.Helper()
	if page.Title != "Isthmus status" {
		t.Errorf("its title is %q", page.Title)
	}
	for _, e := range page.Elements {
		if !slices.Contains(strings.Fields("html head meta link title style body a h1 h2 p table thead tbody tr th td"), e) {
			t.Errorf("it has an element %q", e)
		}
	}
	for _, a := range page.Attributes {
		if !slices.Contains(strings.Fields("lang charset name content rel href id class data-column"), a) {
			t.Errorf("it has an attribute %q", a)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if asked := slices.DeleteFunc(b.asked, func(u string) bool { return strings.HasPrefix(u, "data:") }); !slices.Equal(asked, []string{url}) {
		t.Errorf("it asks for %v", asked)
	}
	if len(b.said) > 0 {
		t.Errorf("the console has: %v", b.said)
	}
}

// takePicture writes what the guide shows, in 256 colors: it is text.
func takePicture(t *testing.T, b *browser) {
	t.Helper()
	b.do(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": 1100, "height": 800, "deviceScaleFactor": 1, "mobile": false})
	var height int
	b.eval(&height, "Math.ceil([...document.querySelectorAll(\"h2\")].at(-1).getBoundingClientRect().top - 10)")
	var taken struct{ Data []byte }
	b.do(&taken, "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": 1100, "height": height, "scale": 1}})
	full, err := png.Decode(bytes.NewReader(taken.Data))
	if err != nil {
		t.Fatal(err)
	}
	colors := map[color.Color]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			colors[full.At(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(colors), func(a, b color.Color) int { return colors[b] - colors[a] })
	small := image.NewPaletted(full.Bounds(), most[:min(len(most), 256)])
	draw.Draw(small, small.Bounds(), full, image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 150_000 {
		t.Errorf("the picture has %d bytes", out.Len())
	}
	if err := os.WriteFile("../../../docs/guides/status-page.png", out.Bytes(), 0o644); err != nil { //nolint:gosec // everybody may read it
		t.Fatal(err)
	}
}
