package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// openDirs makes the directories, and refuses those in which, or on the way to which, others could replace
// what root runs.
func (p Plan) openDirs() error {
	var errs []error
	var dirs []fs.FileInfo
	seen := map[Flaw]bool{} // the two may be in the same one
	for _, dir := range []string{p.BinDir, p.ConfigDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			errs = append(errs, fmt.Errorf("directory %s: %w", dir, reason(err)))
			continue
		}
		info, err := os.Stat(dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		dirs = append(dirs, info)
		for _, f := range p.flaws(dir) {
			if !seen[f] {
				seen[f] = true
				errs = append(errs, fmt.Errorf("%s; %s", f.Cause, f.Next))
			}
		}
	}
	if len(dirs) == 2 && os.SameFile(dirs[0], dirs[1]) {
		errs = append(errs, fmt.Errorf("the programs and the configuration are to be in the same directory %s; the kubelet runs what is in the one, so keep them apart", p.BinDir))
	}
	return errors.Join(errs...)
}

// flaws are those of a path, by the plan's owners.
func (p Plan) flaws(path string) []Flaw {
	if p.owner != nil {
		return flaws(path, p.owner)
	}
	return Flaws(path)
}

// isSafe reports whether a file belongs to root, or to who runs this.
func (p Plan) isSafe(info fs.FileInfo) bool {
	if p.owner != nil {
		return isSafe(p.owner(info))
	}
	return isSafe(fileOwner(info))
}

// lock keeps a second run out of both directories, also one that has but one of them in common with
// this, until unlock is called or the process ends.
func (p Plan) lock() (unlock func(), err error) {
	var locked []*os.File
	unlock = func() {
		for _, f := range locked {
			_ = f.Close() // it was only opened
		}
	}
	for _, dir := range []string{p.BinDir, p.ConfigDir} {
		f, err := os.Open(dir)
		free := false
		if err == nil {
			locked = append(locked, f)
			free, err = lockFile(f)
		}
		switch {
		case err != nil:
			unlock()
			return nil, fmt.Errorf("lock directory %s: %w", dir, reason(err))
		case !free:
			unlock()
			return nil, fmt.Errorf("another installation into %s is under way; wait for its end", dir)
		}
	}
	return unlock, nil
}

// reason is an error without the path, which is said already.
func reason(err error) error {
	var detail *fs.PathError
	if errors.As(err, &detail) {
		return detail.Err
	}
	return err
}
