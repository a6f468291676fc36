package entries

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// Options are what is to be written. The words of errors name the flags of the command config.
type Options struct {
	Source config.Source
	// Name is the program's name, or what it begins with, and NodePath where the file of the source is on the
	// nodes, "" for the same as here.
	Name, NodePath string
	// PerRegistry makes an entry a kind of registry.
	PerRegistry bool
	// MatchImages, separated by commas, are in place of all that can be served, and Partitions, too, choose from that.
	MatchImages, Partitions string
	CacheDuration           time.Duration
	CacheType               string
	Env                     []kubelet.Variable
	// Audience is for whom the tokens of service accounts are, "" for the cloud's usual one.
	Audience string
}

// Check finds what does not go together. Paths are looked at only for what names them: RBAC does not.
func (o Options) Check(rbac bool) error {
	switch {
	case o.CacheDuration < 0:
		return errors.New("--cache-duration has to be 0 or longer")
	case o.CacheType != kubelet.CacheServiceAccount && o.CacheType != kubelet.CacheToken:
		return fmt.Errorf("--cache-type has to be %s or %s", kubelet.CacheServiceAccount, kubelet.CacheToken)
	case o.MatchImages != "" && o.PerRegistry:
		return errors.New("--match-images is for one entry; remove --entry-per-registry or --match-images")
	case o.MatchImages != "" && o.Partitions != "":
		return errors.New("--match-images is in place of what --partition chooses; remove one")
	}
	return errors.Join(o.Source.Check(), o.checkPaths(rbac))
}

// checkPaths finds paths that would not be the node's.
func (o Options) checkPaths(rbac bool) error {
	file := cmp.Or(o.Source.File, o.Source.CloudConfig)
	switch {
	case o.NodePath != "" && file == "":
		return errors.New("--node-config-path is for --config and --cloud-config")
	case o.NodePath != "" && !isNodePath(o.NodePath):
		return fmt.Errorf("--node-config-path %q has to be absolute", o.NodePath)
	case o.NodePath == "" && file != "" && !isSystemPath(file) && !rbac:
		return fmt.Errorf("%q is a path of this machine; give --node-config-path with that on the nodes, such as /etc/isthmus/credential-provider/%s", file, filepath.Base(file))
	}
	return nil
}

// Config is the kubelet's CredentialProviderConfig.
func (o Options) Config() ([]byte, error) {
	entries, err := o.entries(true)
	if err != nil {
		return nil, err
	}
	for _, f := range kubelet.Validate(entries, "") {
		if f.Level == kubelet.Problem {
			return nil, errors.New(f.String())
		}
	}
	return kubelet.NewConfig(entries...).Render(o.comment(entries)...)
}

// RBAC is that without which the nodes get no tokens for the entries. Whoever applies it need not have the nodes' files.
func (o Options) RBAC() ([]byte, error) {
	entries, err := o.entries(false)
	if err != nil {
		return nil, err
	}
	audiences := audiencesOf(entries)
	if len(audiences) == 0 {
		return nil, errors.New("no kind of registry has the identity of service accounts: the nodes need no RBAC; set --identity=serviceAccount if it is meant")
	}
	return kubelet.AudienceRBAC(credentialprovider.Program+"-audience", audiences)
}

// comment is what stands at the top of the file.
func (o Options) comment(entries []kubelet.Entry) []string {
	lines := []string{
		"Written by " + credentialprovider.Program + " config. The kubelet reads it when it starts, with",
		"--image-credential-provider-config=THIS-FILE --image-credential-provider-bin-dir=DIRECTORY-OF-THE-PROGRAM",
	}
	if o.PerRegistry {
		for _, e := range entries {
			if e.Name != o.Name {
				lines = append(lines, "In that directory: ln -s "+o.Name+" "+e.Name)
			}
		}
	}
	if len(audiencesOf(entries)) > 0 {
		lines = append(lines, "The nodes get no tokens without RBAC: the same command with --rbac prints it for kubectl apply -f -.")
	}
	return lines
}

func audiencesOf(entries []kubelet.Entry) []string {
	var all []string
	for _, e := range entries {
		if e.TokenAttributes != nil && !slices.Contains(all, e.TokenAttributes.Audience) {
			all = append(all, e.TokenAttributes.Audience)
		}
	}
	return all
}
