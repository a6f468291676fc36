// Package install puts the credential provider and its configuration on a node, or the next
// version in place of the last.
//
// The kubelet may start the program, or start itself, at any time meanwhile, and the node may
// lose its power. So every file is written beside the one that it replaces, checked, and then
// renamed; the order of the items makes sure that nothing names what is not there yet; and a
// second run finishes what an interrupted one began. A record in the configuration's directory
// says which files are ours and with what content: what somebody else made, or changed since,
// is not replaced.
package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tempPrefix begins and tempSuffix ends the names of files that have not taken their places yet. The
// suffix keeps the kubelet from reading them: of a directory of configurations it reads all *.json,
// *.yaml and *.yml, hidden ones too, and does not start if one of them is none.
const (
	tempPrefix = ".isthmus-install-"
	tempSuffix = ".new"
)

// Dir is a directory on the node.
type Dir string

// The directories.
const (
	// Bin is the kubelet's --image-credential-provider-bin-dir.
	Bin Dir = "bin"
	// Config has the kubelet's CredentialProviderConfig and the files that it names.
	Config Dir = "config"
)

// Item is a file, or a symbolic link, that is to be in a directory.
type Item struct {
	Dir  Dir
	Name string
	// Link is what a link points to; "" for a file with Data and Mode.
	Link string
	Data []byte
	Mode fs.FileMode
	// Check, if set, looks at the file in its directory before it takes its place.
	Check func(ctx context.Context, file string) error
	// Restart is that the kubelet has to be restarted after a change.
	Restart bool
}

func (i Item) key() string { return string(i.Dir) + "/" + i.Name }

// Plan is what is to be on the node.
type Plan struct {
	BinDir, ConfigDir string
	// Items take their places in this order, those that others name first.
	Items []Item
	// Force replaces files that are not ours, too.
	Force bool

	// step, if set, is called between steps; tests end the process there.
	step func()
	// owner, if set, stands in for whom files belong to.
	owner func(fs.FileInfo) int
}

// Result is what was done.
type Result struct {
	// Changed are the files that were replaced or are new.
	Changed []string
	// Restart is that the kubelet was not yet restarted since a change that needs it.
	Restart bool
}

// errForeign is that there is a file that is not ours.
var errForeign = errors.New("it is not what was installed here")

// ErrRejected is that the kubelet did not run with what is to be installed.
var ErrRejected = errors.New("the kubelet did not run with it")

// Run brings the node to the plan. Where all is as it should be it writes nothing. When it
// fails, each file is the old one or the new one, and the next run goes on from there.
func (p Plan) Run(ctx context.Context) (Result, error) {
	if err := p.openDirs(); err != nil {
		return Result{}, err
	}
	unlock, err := p.lock()
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	if err := p.removeLeftovers(); err != nil {
		return Result{}, err
	}
	old, err := p.readRecord()
	if err != nil {
		return Result{}, err
	}
	changes, err := p.changes(old)
	if err != nil {
		return Result{}, err
	}
	if p.Force {
		old.Rejected = ""
	}
	for _, i := range changes {
		if i.sum() == old.Rejected {
			return Result{}, fmt.Errorf("%s is not replaced: %w", p.path(i), ErrRejected)
		}
	}
	result := Result{Restart: old.Restart || slices.ContainsFunc(changes, func(i Item) bool { return i.Restart })}
	// What takes its place is in the record before that, beside what it replaces: both are ours.
	if len(changes) > 0 {
		if err := p.writeRecord(old.with(changes, result.Restart)); err != nil {
			return Result{}, err
		}
	}
	for _, i := range changes {
		if err := p.place(ctx, i); err != nil {
			return result, err
		}
		result.Changed = append(result.Changed, p.path(i))
	}
	if final := old.settled(p.Items, result.Restart); !final.equal(old) || len(changes) > 0 {
		return result, p.writeRecord(final)
	}
	return result, nil
}

// Restarted records that the kubelet was restarted after the last change.
func (p Plan) Restarted() error {
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := p.readRecord()
	if err != nil {
		return err
	}
	r.Restart = false
	return p.writeRecord(r)
}

// Undo puts back what was in the place of an item of the plan, as the kubelet did not run with that.
// Runs refuse it from now on, until it changes or with Force. The kubelet has to be restarted.
func (p Plan) Undo(ctx context.Context, was Item) error {
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := p.readRecord()
	if err != nil {
		return err
	}
	for _, i := range p.Items {
		if i.key() == was.key() {
			r.Rejected = i.sum()
		}
	}
	if err := p.writeRecord(r.with([]Item{was}, true)); err != nil {
		return err
	}
	if err := p.place(ctx, was); err != nil {
		return err
	}
	return p.writeRecord(r.settled([]Item{was}, true))
}

func (p Plan) dir(d Dir) string {
	if d == Bin {
		return p.BinDir
	}
	return p.ConfigDir
}

func (p Plan) path(i Item) string { return filepath.Join(p.dir(i.Dir), i.Name) }

func (p Plan) between() {
	if p.step != nil {
		p.step()
	}
}

// removeLeftovers removes what an interrupted run has left.
func (p Plan) removeLeftovers() error {
	for _, dir := range []string{p.BinDir, p.ConfigDir} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), tempPrefix) {
				continue
			}
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("remove what an interrupted installation has left: %w", err)
			}
		}
	}
	return nil
}

// changes are the items that are not as they should be. It fails if one of them would replace
// what is not ours.
func (p Plan) changes(old record) ([]Item, error) {
	var changes []Item
	var errs []error
	for _, i := range p.Items {
		there, same, err := p.state(i)
		switch {
		case err != nil:
			errs = append(errs, err)
		case same:
		case there == "" || p.Force || there == i.sum() || slices.Contains(old.Files[i.key()], there):
			changes = append(changes, i)
		default:
			errs = append(errs, fmt.Errorf("%s: %w: somebody else made it, or has changed it since; look at it, and remove it or give --force to replace it", p.path(i), errForeign))
		}
	}
	return changes, errors.Join(errs...)
}
