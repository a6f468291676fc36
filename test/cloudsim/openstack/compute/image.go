package compute

import (
	"net/http"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// Glance: just enough for servers to have an image.

// ImageService is Glance's part of the API.
func (s *Nova) ImageService() *core.Service {
	return &core.Service{Name: "image", Prefix: "/image", ErrorBody: imageError, Routes: s.imageRoutes}
}

func (s *Nova) imageRoutes(r *core.Router) {
	r.Open("GET /{$}", s.imageVersions)
	r.Open("GET /versions", s.imageVersions)
	r.Handle("GET /v2/images", s.listImages)
	r.Handle("GET /v2/images/{id}", s.showImage)
}

// imageError is Glance's error body: WebOb's page.
func imageError(_ *core.Call, e *core.Error) (string, any) {
	title := http.StatusText(e.Status)
	return "text/html; charset=UTF-8", []byte("<html>\n <head>\n  <title>" + title + "</title>\n </head>\n <body>\n  <h1>" + title + "</h1>\n  " + e.Message + "<br /><br />\n\n\n\n </body>\n</html>")
}

func (s *Nova) imageVersions(c *core.Call) (*core.Reply, error) {
	versions := []core.Object{{"id": "v2.15", "status": "CURRENT", "links": []core.Object{{"rel": "self", "href": c.URL("/v2/")}}}}
	return core.Answer(http.StatusMultipleChoices, core.Object{"versions": versions})
}

func (s *Nova) imageBody(m image) core.Object {
	at := s.Started.Format(time.RFC3339)
	path := "/v2/images/" + m.id
	return core.Object{
		"name": m.name, "disk_format": "raw", "container_format": "bare", "visibility": "public", "size": 1024, "virtual_size": 1024,
		"status": "active", "protected": false, "min_ram": 0, "min_disk": 0, "os_hidden": false, "id": m.id, "created_at": at, "updated_at": at,
		"tags": []string{}, "self": path, "file": path + "/file", "schema": "/v2/schemas/image",
	}
}

func (s *Nova) listImages(c *core.Call) (*core.Reply, error) {
	out := []core.Object{}
	for _, m := range s.images {
		if name := c.Query.Get("name"); name == "" || name == m.name {
			out = append(out, s.imageBody(m))
		}
	}
	first := "/v2/images"
	if c.Request.URL.RawQuery != "" {
		first += "?" + c.Request.URL.RawQuery
	}
	return core.OK(core.Object{"images": out, "first": first, "schema": "/v2/schemas/images"})
}

func (s *Nova) showImage(c *core.Call) (*core.Reply, error) {
	id := c.Param("id")
	i := slices.IndexFunc(s.images, func(m image) bool { return m.id == id })
	if i < 0 {
		return nil, core.Errorf(http.StatusNotFound, "", "No image found with ID %s", id)
	}
	return core.OK(s.imageBody(s.images[i]))
}
