// Package paperapi is the library of the cloud that docs/add-a-cloud.md adds: what gophercloud is to OpenStack. Its cloud
// is a folder: a file "key", which clients have to know, and a folder for each kind of objects, with a JSON file for each
// object under its ID. Where there is a file "throttled", all requests are too many.
package paperapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"time"
)

// The errors of the cloud. Others are those of the operating system.
var (
	ErrAway   = errors.New("the folder, or that of a kind, is not there")
	ErrKey    = errors.New("the key is not the folder's")
	ErrBusy   = errors.New("too many requests")
	ErrNone   = errors.New("there is no such object")
	ErrExists = errors.New("there is one already")
)

// The kinds of objects, each a folder.
const (
	Instances = "instances"
	Balancers = "loadbalancers"
	Addresses = "addresses"
	Routes    = "routes"
)

// Kinds returns all of them.
func Kinds() []string { return []string{Instances, Balancers, Addresses, Routes} }

// Owner is what an object tells of whom it is for; empty for a user's.
type Owner struct{ ClusterUID, ClusterID, Service, ServiceUID string }

// Instance is a machine. Its ID is its name.
type Instance struct {
	Type, Zone, MachineID string
	Addresses             []netip.Addr
	PodCIDRs              []netip.Prefix
	Off                   bool
}

// Balancer is a load balancer. An address that is taken is stored as one, too, with an owner alone; its ID is the address.
type Balancer struct {
	Owner     Owner
	Addresses []netip.Addr
	Listeners []Listener
}

// Listener is one port of a load balancer.
type Listener struct {
	Protocol       string
	Port, NodePort int32
	Proxy          bool           // PROXY protocol, version 2
	Clients        []netip.Prefix // none is everyone
	Affinity       time.Duration
	Check          *Check
	Members        []netip.AddrPort
}

// Check is how members are asked over HTTP.
type Check struct {
	Port int32
	Path string
}

// Route leads from a destination to an instance. Its ID is the destination with "_" for "/".
type Route struct {
	Destination netip.Prefix
	// Target is "paper:///ID" of the instance.
	Target string
	// ClusterUID is whose it is; empty for a user's.
	ClusterUID string
}

var validID = regexp.MustCompile(`^[a-z0-9][-.a-z0-9]*$`)

// ValidID reports whether an instance can have the ID.
func ValidID(id string) bool { return validID.MatchString(id) }

// NewID is an ID for a load balancer.
func NewID() string { return strings.ToLower(rand.Text()) }

// Client calls the cloud.
type Client struct {
	Folder, Key string
	// Around stands around every request, as an HTTP client's transport does: send sends it. Required.
	Around func(ctx context.Context, r Request, send func() error) error
}

// Request is one call.
type Request struct {
	// Op is list, get, make, set or delete, Object "kind/id" or, of a list, the kind.
	Op, Object string
	// Content is what the object becomes. Mutates is true for all but list and get.
	Content []byte
	Mutates bool
}

// List returns all objects of a kind by ID.
func List[T any](ctx context.Context, c *Client, kind string) (map[string]T, error) {
	all := map[string]T{}
	return all, c.do(ctx, Request{Op: "list", Object: kind}, func(root *os.Root) error {
		entries, err := fs.ReadDir(root.FS(), kind)
		for _, e := range entries {
			o, err := load[T](root, kind+"/"+e.Name())
			if errors.Is(err, ErrNone) {
				continue // deleted since
			}
			if err != nil {
				return err
			}
			all[e.Name()] = o
		}
		return err
	})
}

// Get returns one object, or ErrNone.
func Get[T any](ctx context.Context, c *Client, kind, id string) (T, error) {
	var o T
	err := c.do(ctx, Request{Op: "get", Object: kind + "/" + id}, func(root *os.Root) (err error) {
		o, err = load[T](root, kind+"/"+id)
		return err
	})
	return o, err
}

// Make makes an object; ErrExists where there is one with that ID.
func Make(ctx context.Context, c *Client, kind, id string, object any) error {
	return c.write(ctx, "make", kind+"/"+id, object, (*os.Root).Link)
}

// Set makes an object or replaces it.
func Set(ctx context.Context, c *Client, kind, id string, object any) error {
	return c.write(ctx, "set", kind+"/"+id, object, (*os.Root).Rename)
}

// Delete deletes an object; ErrNone where there is none.
func Delete(ctx context.Context, c *Client, kind, id string) error {
	return c.do(ctx, Request{Op: "delete", Object: kind + "/" + id, Mutates: true}, func(root *os.Root) error { return root.Remove(kind + "/" + id) })
}

func load[T any](root *os.Root, file string) (o T, err error) {
	data, err := root.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return o, fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	return o, err
}

// write puts an object in its place as a whole or not at all.
func (c *Client) write(ctx context.Context, op, file string, object any, put func(root *os.Root, from, to string) error) error {
	content, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return c.do(ctx, Request{Op: op, Object: file, Content: content, Mutates: true}, func(root *os.Root) error {
		temp := "." + rand.Text()
		defer func() { _ = root.Remove(temp) }()
		if err := root.WriteFile(temp, content, 0o600); err != nil {
			return err
		}
		return put(root, temp, file)
	})
}

// do makes one request. That an object is not there is an answer only of the right folder, read just before.
func (c *Client) do(ctx context.Context, r Request, f func(*os.Root) error) error {
	return c.Around(ctx, r, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		root, err := os.OpenRoot(c.Folder)
		if err != nil {
			return fmt.Errorf("%w: %s", ErrAway, err.Error())
		}
		defer func() { _ = root.Close() }()
		key, err := root.ReadFile("key")
		kind, _, _ := strings.Cut(r.Object, "/")
		if _, missing := root.Stat(kind); err != nil || missing != nil {
			return fmt.Errorf("%w: %s", ErrAway, errors.Join(err, missing).Error())
		}
		if strings.TrimSpace(string(key)) != c.Key {
			return ErrKey
		}
		if _, err := root.Stat("throttled"); err == nil {
			return ErrBusy
		}
		err = f(root)
		switch {
		case errors.Is(err, fs.ErrExist):
			return fmt.Errorf("%w: %w", ErrExists, err)
		case r.Op == "delete" && errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %w", ErrNone, err)
		}
		return err
	})
}
