package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

const configHelp = `isthmus-credential-provider config writes the kubelet's CredentialProviderConfig for the chosen
registries, to stdout or to a file.

What the provider is to serve, as when the kubelet runs it:
  --registries, --identity, --cloud-config, or --config (see isthmus-credential-provider --help)
  --node-config-path PATH  where the file of --config or --cloud-config is on the nodes; not needed
                           if it is the same there, in one of SYSTEMDIRS

The entry:
  --name NAME              the program's name in the kubelet's directory
                           (default isthmus-credential-provider)
  --entry-per-registry     an entry a kind of registry, NAME-<kind>, in place of one for all; the
                           kubelet wants a program of each name: ln -s NAME NAME-<kind>
  --match-images LIST      in place of all registries that can be served, separated by commas
  --partition LIST         with ecr: its registries in these partitions of AWS alone, separated by
                           commas: PARTITIONS
  --cache-duration TIME    how long the kubelet keeps credentials that do not say so (default 10m)
  --env NAME=VALUE         a variable for the provider, and no secret: everybody may read the file; may
                           be repeated
  --audience AUDIENCE      with the identity of service accounts: for whom their tokens are, where
                           it is not the cloud's usual one
  --cache-type TYPE        ServiceAccount (default) or Token: for whom credentials are kept

Where to:
  --output FILE            write this file at once (atomic), and only if it is not there yet or is
                           the same; default: stdout
  --force                  replace a file with other content
  --rbac                   print the ClusterRole and the ClusterRoleBinding without which the nodes
                           get no tokens for the audience, in place of the configuration
  --help                   print this text
`

// configOptions are the flags of the command config.
type configOptions struct {
	plugin        options
	name          string
	nodePath      string
	perRegistry   bool
	matchImages   string
	partitions    string
	cacheDuration time.Duration
	cacheType     string
	env           variables
	audience      string
	output        string
	force, rbac   bool
}

// variables is a flag NAME=VALUE that may be repeated.
type variables []kubelet.Variable

// String implements flag.Value.
func (v *variables) String() string { return "" }

// Set implements flag.Value.
func (v *variables) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return errors.New("it has to be NAME=VALUE")
	}
	if slices.ContainsFunc(*v, func(o kubelet.Variable) bool { return o.Name == key }) {
		return fmt.Errorf("%s is there twice", key)
	}
	*v = append(*v, kubelet.Variable{Name: key, Value: value})
	return nil
}

// runConfig is the command config.
func runConfig(_ context.Context, args []string, s streams) int {
	var o configOptions
	flags := flag.NewFlagSet("config", flag.ContinueOnError)
	o.plugin.register(flags)
	flags.StringVar(&o.name, "name", name, "")
	flags.StringVar(&o.nodePath, "node-config-path", "", "")
	flags.StringVar(&o.partitions, "partition", "", "")
	flags.BoolVar(&o.perRegistry, "entry-per-registry", false, "")
	flags.StringVar(&o.matchImages, "match-images", "", "")
	flags.DurationVar(&o.cacheDuration, "cache-duration", 10*time.Minute, "")
	flags.StringVar(&o.cacheType, "cache-type", kubelet.CacheServiceAccount, "")
	flags.Var(&o.env, "env", "")
	flags.StringVar(&o.audience, "audience", "", "")
	flags.StringVar(&o.output, "output", "", "")
	flags.BoolVar(&o.force, "force", false, "")
	flags.BoolVar(&o.rbac, "rbac", false, "")
	if code, ok := parseCommand(flags, args, strings.NewReplacer("PARTITIONS", strings.Join(partitions(), ", "), "SYSTEMDIRS", strings.Join(systemDirs(), ", ")).Replace(configHelp), s); !ok {
		return code
	}
	if err := o.check(); err != nil {
		complain(s.err, err)
		return exitUsage
	}
	if err := o.write(s); err != nil {
		complain(s.err, err)
		return exitFailed
	}
	return exitOK
}

// check finds flags that do not go together.
func (o configOptions) check() error {
	switch {
	case o.cacheDuration < 0:
		return errors.New("--cache-duration has to be 0 or longer")
	case o.cacheType != kubelet.CacheServiceAccount && o.cacheType != kubelet.CacheToken:
		return fmt.Errorf("--cache-type has to be %s or %s", kubelet.CacheServiceAccount, kubelet.CacheToken)
	case o.matchImages != "" && o.perRegistry:
		return errors.New("--match-images is for one entry; remove --entry-per-registry or --match-images")
	case o.matchImages != "" && o.partitions != "":
		return errors.New("--match-images is in place of what --partition chooses; remove one")
	case o.force && o.output == "":
		return errors.New("--force is for --output")
	case o.rbac && o.output != "":
		return errors.New("--rbac prints to stdout; remove --output")
	}
	return errors.Join(o.plugin.check(), o.checkPaths())
}

// checkPaths finds paths that would not be the node's.
func (o configOptions) checkPaths() error {
	file := cmp.Or(o.plugin.config, o.plugin.cloudConfig)
	switch {
	case o.nodePath != "" && file == "":
		return errors.New("--node-config-path is for --config and --cloud-config")
	case o.nodePath != "" && !isNodePath(o.nodePath):
		return fmt.Errorf("--node-config-path %q has to be absolute", o.nodePath)
	case o.nodePath == "" && file != "" && !isSystemPath(file) && !o.rbac:
		return fmt.Errorf("%q is a path of this machine; give --node-config-path with that on the nodes, such as /etc/isthmus/credential-provider/%s", file, filepath.Base(file))
	}
	return nil
}

// write makes what was asked for and puts it where it belongs.
func (o configOptions) write(s streams) error {
	c, err := o.plugin.configuration()
	if err != nil {
		return err
	}
	entries, err := o.entries(c)
	if err != nil {
		return err
	}
	audiences := audiencesOf(entries)
	if o.rbac {
		if len(audiences) == 0 {
			return errors.New("no kind of registry has the identity of service accounts: the nodes need no RBAC; set --identity=serviceAccount if it is meant")
		}
		data, err := kubelet.AudienceRBAC(name+"-audience", audiences)
		if err != nil {
			return err
		}
		return write(s.out, string(data))
	}
	for _, f := range kubelet.Validate(entries, "") {
		if f.Level == kubelet.Problem {
			return errors.New(f.String())
		}
	}
	data, err := kubelet.NewConfig(entries...).Render(o.comment(entries, audiences)...)
	if err != nil {
		return err
	}
	if o.output == "" {
		return write(s.out, string(data))
	}
	return o.writeFile(data, s)
}

func (o configOptions) writeFile(data []byte, s streams) error {
	changed, err := kubelet.WriteFile(o.output, data, o.force)
	switch {
	case errors.Is(err, kubelet.ErrDiffers):
		return fmt.Errorf("--output %s: %w; look at it, and give --force to replace it", o.output, err)
	case err != nil:
		return fmt.Errorf("--output: %w", err)
	case changed:
		return write(s.out, o.output+" written; the kubelet reads it when it starts: restart it\n")
	}
	return write(s.out, o.output+" is as it should be\n")
}

// comment is what stands at the top of the file.
func (o configOptions) comment(entries []kubelet.Entry, audiences []string) []string {
	lines := []string{
		"Written by " + name + " config. The kubelet reads it when it starts, with",
		"--image-credential-provider-config=THIS-FILE --image-credential-provider-bin-dir=DIRECTORY-OF-THE-PROGRAM",
	}
	if o.perRegistry {
		for _, e := range entries {
			if e.Name != o.name {
				lines = append(lines, "In that directory: ln -s "+o.name+" "+e.Name)
			}
		}
	}
	if len(audiences) > 0 {
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

// entries makes the entry for all kinds, or one for each.
func (o configOptions) entries(c *config) ([]kubelet.Entry, error) {
	var kinds []section
	for _, s := range sections() {
		if s.identity(c) != nil {
			kinds = append(kinds, s)
		}
	}
	if !o.perRegistry {
		e, err := o.entry(c, o.name, o.args(""), kinds)
		return []kubelet.Entry{e}, err
	}
	var entries []kubelet.Entry
	for _, kind := range kinds {
		e, err := o.entry(c, o.name+"-"+kind.name, o.args(kind.name), []section{kind})
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// args are the provider's, for one kind or, with "", for all.
func (o configOptions) args(kind string) []string {
	var args []string
	add := func(flag, value string) {
		if value != "" {
			args = append(args, "--"+flag+"="+value)
		}
	}
	if o.plugin.config != "" {
		add("config", cmp.Or(o.nodePath, o.plugin.config))
		return args
	}
	if kind == "" {
		kind = o.plugin.registries
	}
	add("registries", kind)
	add("identity", o.plugin.identity)
	if o.plugin.cloudConfig != "" && (o.plugin.registries == "" || slices.Contains(strings.Split(kind, ","), "openstack")) {
		add("cloud-config", cmp.Or(o.nodePath, o.plugin.cloudConfig))
	}
	return args
}

// entry makes an entry for these kinds.
func (o configOptions) entry(c *config, program string, args []string, kinds []section) (kubelet.Entry, error) {
	e := kubelet.Entry{
		Name: program, APIVersion: kubelet.ProviderGroup + "/v1", Args: args, Env: o.env,
		CacheDuration: o.cacheDuration.String(),
	}
	var err error
	switch {
	case o.rbac: // it names no registries, and whoever applies it need not have the node's files
	case o.matchImages != "":
		e.MatchImages = strings.Split(o.matchImages, ",")
	default:
		if e.MatchImages, err = o.images(c, kinds); err != nil {
			return e, err
		}
	}
	e.TokenAttributes, err = o.tokenAttributes(c, kinds)
	return e, err
}

// images are the patterns of these kinds.
func (o configOptions) images(c *config, kinds []section) ([]string, error) {
	var all []string
	for _, kind := range kinds {
		p, _, err := kind.open(c, credentialprovider.Options{})
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; where it is on the nodes alone, name the registries with --match-images", err)
		}
		if err != nil {
			return nil, err
		}
		images := p.MatchImages()
		if o.partitions != "" && kind.inPartitions != nil {
			if images, err = kind.inPartitions(images, strings.Split(o.partitions, ",")); err != nil {
				return nil, fmt.Errorf("--partition: %w", err)
			}
		}
		if len(images) == 0 {
			return nil, fmt.Errorf("%s serves no registry: %s", kind.name, p.Describe())
		}
		for _, image := range images {
			if !slices.Contains(all, image) {
				all = append(all, image)
			}
		}
	}
	return all, nil
}

// tokenAttributes are those of these kinds, nil if they use the node's identity.
func (o configOptions) tokenAttributes(c *config, kinds []section) (*kubelet.TokenAttributes, error) {
	required := true
	t := &kubelet.TokenAttributes{Audience: o.audience, CacheType: o.cacheType, Require: &required}
	node, from := "", ""
	for _, kind := range kinds {
		if *kind.identity(c) != credentialprovider.ServiceAccountIdentity {
			node = kind.name
			continue
		}
		audience := kind.audience(c)
		switch {
		case o.audience != "":
		case audience == "":
			return nil, fmt.Errorf("%s: nothing says for whom the service accounts' tokens are to be; give --audience, as the cloud's administrator set it up", kind.name)
		case t.Audience != "" && t.Audience != audience:
			return nil, fmt.Errorf("%s wants tokens for %s and %s for %s, but an entry has one audience; give --entry-per-registry", from, t.Audience, kind.name, audience)
		default:
			t.Audience = audience
		}
		from = kind.name
		t.OptionalAnnotations = append(t.OptionalAnnotations, kind.annotations...)
	}
	switch {
	case from == "" && o.audience != "":
		return nil, errors.New("--audience is for --identity=serviceAccount")
	case from == "":
		return nil, nil
	case node != "":
		return nil, fmt.Errorf("%s has the node's identity and %s that of service accounts, but the kubelet sends tokens to all of an entry or to none; give --entry-per-registry", node, from)
	}
	return t, nil
}
