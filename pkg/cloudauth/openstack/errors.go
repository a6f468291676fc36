package openstack

import (
	"errors"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// AsError finds the *cloudauth.Error in err, nil when there is none. It also looks where errors.As
// cannot: into the failure of a re-authentication during a request (gophercloud). Such an error
// wraps context errors and network errors, but never an HTTP answer of Keystone.
func AsError(err error) *cloudauth.Error {
	var own *cloudauth.Error
	if errors.As(err, &own) {
		return own
	}
	var re *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &re) && errors.As(re.ErrReauth, &own) {
		return own
	}
	return nil
}
