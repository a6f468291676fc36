// Package hosted lists the admission webhooks that Isthmus hosts.
package hosted

import (
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
	"github.com/isthmus-cloud/isthmus/webhooks/service"
)

// All returns every webhook there is, sorted by name. A new one is one line here.
func All() []webhooks.Webhook {
	return []webhooks.Webhook{
		pvlabel.Webhook(),
		service.Webhook(),
	}
}
