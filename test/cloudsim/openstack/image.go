package openstack

import (
	"net/http"
	"slices"
	"time"
)

// Glance: just enough for servers to have an image.

// imageService is Glance's part of the API.
func (s *Nova) imageService() *service {
	return &service{name: "image", prefix: "/image", errorBody: imageError, routes: s.imageRoutes}
}

func (s *Nova) imageRoutes(r *router) {
	r.open("GET /{$}", s.imageVersions)
	r.open("GET /versions", s.imageVersions)
	r.handle("GET /v2/images", s.listImages)
	r.handle("GET /v2/images/{id}", s.showImage)
}

// imageError is Glance's error body: WebOb's page.
func imageError(_ *call, e *apiError) (string, any) {
	title := http.StatusText(e.status)
	return "text/html; charset=UTF-8", []byte("<html>\n <head>\n  <title>" + title + "</title>\n </head>\n <body>\n  <h1>" + title + "</h1>\n  " + e.message + "<br /><br />\n\n\n\n </body>\n</html>")
}

func (s *Nova) imageVersions(c *call) (*reply, error) {
	versions := []object{{"id": "v2.15", "status": "CURRENT", "links": []object{{"rel": "self", "href": c.url("/v2/")}}}}
	return answer(http.StatusMultipleChoices, object{"versions": versions})
}

func (s *Nova) imageBody(m image) object {
	at := s.start.Format(time.RFC3339)
	path := "/v2/images/" + m.id
	return object{
		"name": m.name, "disk_format": "raw", "container_format": "bare", "visibility": "public", "size": 1024, "virtual_size": 1024,
		"status": "active", "protected": false, "min_ram": 0, "min_disk": 0, "os_hidden": false, "id": m.id, "created_at": at, "updated_at": at,
		"tags": []string{}, "self": path, "file": path + "/file", "schema": "/v2/schemas/image",
	}
}

func (s *Nova) listImages(c *call) (*reply, error) {
	out := []object{}
	for _, m := range s.images {
		if name := c.query.Get("name"); name == "" || name == m.name {
			out = append(out, s.imageBody(m))
		}
	}
	first := "/v2/images"
	if c.r.URL.RawQuery != "" {
		first += "?" + c.r.URL.RawQuery
	}
	return ok(object{"images": out, "first": first, "schema": "/v2/schemas/images"})
}

func (s *Nova) showImage(c *call) (*reply, error) {
	id := c.param("id")
	i := slices.IndexFunc(s.images, func(m image) bool { return m.id == id })
	if i < 0 {
		return nil, errorf(http.StatusNotFound, "", "No image found with ID %s", id)
	}
	return ok(s.imageBody(s.images[i]))
}
