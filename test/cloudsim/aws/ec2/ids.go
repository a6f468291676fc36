package ec2

import (
	"regexp"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// kind says how a kind of object is asked for by ID.
type kind struct {
	prefix    string // of IDs
	malformed string // code
	says      string // message, with "%s" for the ID
	notFound  string // code
	one, many string // messages, with "%s" for the ID or IDs
}

// kinds are by the IDs' prefix. Codes are from EC2's list of errors. The messages of instances, volumes, security groups, subnets
// and VPCs are as reported by users; those of the others are unverified.
var kinds = map[string]kind{
	"i": {"i", "InvalidInstanceID.Malformed", "Invalid id: \"%s\"", "InvalidInstanceID.NotFound",
		"The instance ID '%s' does not exist", "The instance IDs '%s' do not exist"},
	"eni": {"eni", "InvalidNetworkInterfaceId.Malformed", "Invalid id: \"%s\"", "InvalidNetworkInterfaceID.NotFound",
		"The networkInterface ID '%s' does not exist", "The networkInterface IDs '%s' do not exist"},
	"vol": {"vol", "InvalidParameterValue", "Value (%s) for parameter volumeId is invalid. Expected: 'vol-...'.",
		"InvalidVolume.NotFound",
		"The volume '%s' does not exist.", "The volumes '%s' do not exist."},
	"vpc": {"vpc", "InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", "InvalidVpcID.NotFound",
		"The vpc ID '%s' does not exist", "The vpc IDs '%s' do not exist"},
	"subnet": {"subnet", "InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", "InvalidSubnetID.NotFound",
		"The subnet ID '%s' does not exist", "The subnet IDs '%s' do not exist"},
	"rtb": {"rtb", "InvalidRouteTableId.Malformed", "Invalid id: \"%s\" (expecting \"rtb-...\")", "InvalidRouteTableID.NotFound",
		"The routeTable ID '%s' does not exist", "The routeTable IDs '%s' do not exist"},
	"sg": {"sg", "InvalidGroupId.Malformed", "Invalid id: \"%s\" (expecting \"sg-...\")", "InvalidGroup.NotFound",
		"The security group '%s' does not exist", "The security groups '%s' do not exist"},
	"eipalloc": {"eipalloc", "InvalidAllocationID.NotFound", "The allocation ID '%s' does not exist",
		"InvalidAllocationID.NotFound",
		"The allocation ID '%s' does not exist", "The allocation IDs '%s' do not exist"},
}

var hexID = regexp.MustCompile(`^([0-9a-f]{8}|[0-9a-f]{17})$`)

func (k *kind) check(id string) error {
	rest, ok := strings.CutPrefix(id, k.prefix+"-")
	if !ok || !hexID.MatchString(rest) {
		return query.Errorf(k.malformed, "%s", strings.Replace(k.says, "%s", id, 1))
	}
	return nil
}

func (k *kind) missing(ids []string) error {
	says := k.one
	if len(ids) > 1 {
		says = k.many
	}
	return query.Errorf(k.notFound, "%s", strings.Replace(says, "%s", strings.Join(ids, ", "), 1))
}

// lookUp returns the objects with these IDs, once each, in their own order; all of them without IDs. One ID that is malformed or
// not found fails all. hidden may be nil.
func lookUp[T store.Object](t *store.Table[T], prefix string, ids []string, hidden func(T) bool) ([]T, error) {
	if hidden == nil {
		hidden = func(T) bool { return false }
	}
	if len(ids) == 0 {
		return t.Where(func(v T) bool { return !hidden(v) }), nil
	}
	k := kinds[prefix]
	for _, id := range ids {
		if err := k.check(id); err != nil {
			return nil, err
		}
	}
	var found store.Table[T]
	var missing []string
	for _, id := range ids {
		var none T
		if v := t.Get(id); v != none && !hidden(v) {
			found.Put(v)
		} else {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		return nil, k.missing(missing)
	}
	return found.All(), nil
}

// get is lookUp of one. The ID is required.
func get[T store.Object](t *store.Table[T], prefix, id string, hidden func(T) bool) (T, error) {
	found, err := lookUp(t, prefix, []string{id}, hidden)
	if err != nil {
		var none T
		return none, err
	}
	return found[0], nil
}
