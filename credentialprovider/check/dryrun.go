package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// dryRun runs the providers that match the image, and says what the kubelet gets.
func (c *Check) dryRun(ctx context.Context, entries []kubelet.Entry) {
	c.say("image %s", c.image)
	runs := kubelet.Runs(entries, c.image)
	if len(runs) == 0 {
		for _, e := range entries {
			for _, reason := range kubelet.WhyNot(e, c.image) {
				c.say("  provider %q, matchImages %s", e.Name, reason)
			}
		}
		c.add(kubelet.Finding{Level: kubelet.Problem, File: c.options.KubeletConfig, Field: "matchImages", Cause: "no pattern holds for " + c.image + ": the kubelet runs no provider for it and pulls without credentials", Next: "add " + c.image[:strings.IndexByte(c.image, '/')] + " to the matchImages of a provider"})
		return
	}
	runner := kubelet.Runner{BinDir: c.options.BinDir, Environ: c.environ, Token: c.token, Annotations: c.options.Annotations}
	users := map[string][]string{} // by key
	var keys []string
	for _, e := range runs {
		answer, err := runner.Run(ctx, e, c.image)
		if !c.tell(e, runner, answer, err) {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(answer.Logins)) {
			users[key] = append(users[key], fmt.Sprintf("%q", answer.Logins[key].User))
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	tried := kubelet.Tried(keys, c.image)
	for _, key := range tried {
		c.say("the kubelet pulls as user %s, by the key %s", strings.Join(users[key], ", then "), key)
	}
	if len(tried) == 0 {
		c.say("the kubelet pulls without credentials")
	}
}

// tell says what a provider answered. It returns false where there is no answer.
func (c *Check) tell(e kubelet.Entry, runner kubelet.Runner, answer kubelet.Answer, err error) bool {
	f := kubelet.Finding{Level: kubelet.Problem, File: e.File, Entry: e.Name}
	c.say("  provider %q: %s", e.Name, runner.Command(e))
	var skipped kubelet.Skipped
	if errors.As(err, &skipped) {
		c.say("    not run")
		f.Level, f.Cause, f.Next = kubelet.Warning, "the kubelet does not run it for this pod", string(skipped)
		c.add(f)
		return false
	}
	if err != nil {
		c.say("    failed")
		f.Cause, f.Next = "it gives no credentials for "+c.image, cloudauth.Excerpt(err.Error(), 1500, c.token)
		c.failures[e.Name] = f.Next
		c.add(f)
		return false
	}
	if answer.Said != "" {
		c.add(kubelet.Finding{Level: kubelet.Warning, File: e.File, Entry: e.Name, Cause: "it writes to stderr, which the kubelet drops when there is an answer: " + answer.Said, Next: "correct what it says"})
	}
	keep := fmt.Sprintf("kept for %s (%s)", answer.Cache, strings.ToLower(answer.CacheKey))
	switch {
	case answer.Cache == 0:
		keep = "not kept"
	case answer.Default:
		keep += ", by defaultCacheDuration"
	}
	c.say("    answered after %d ms, %s", answer.Took.Milliseconds(), keep)
	c.logins(f, answer)
	return true
}

// logins says which users there are, and for what.
func (c *Check) logins(f kubelet.Finding, answer kubelet.Answer) {
	if len(answer.Logins) == 0 {
		c.say("    no user: it says that the image needs no credentials")
		if answer.Cache > 0 {
			f.Level = kubelet.Warning
			f.Cause, f.Next = fmt.Sprintf("its answer has no credentials, and the kubelet keeps that for %s", answer.Cache), "expect this only of a public registry"
			c.add(f)
		}
		return
	}
	matched := false
	for _, key := range slices.Sorted(maps.Keys(answer.Logins)) {
		login := answer.Logins[key]
		password := "with a password"
		if !login.HasPassword() {
			password = "without a password"
		}
		c.say("    user %q for %s, %s", login.User, key, password)
		matched = matched || len(kubelet.Tried([]string{key}, c.image)) > 0
	}
	if !matched {
		f.Cause, f.Next = "no key of its answer holds for "+c.image+": the kubelet does not use it", "correct the provider: a key has to be the registry as the image writes it, with its port"
		c.add(f)
	}
}
