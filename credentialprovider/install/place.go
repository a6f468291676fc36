package install

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxInstalled bounds what is read of a file that may be replaced.
const maxInstalled = 256 << 20

// state returns the sum of what is in the item's place, "" for nothing, and whether it is as it
// should be.
func (p Plan) state(i Item) (sum string, same bool, err error) {
	path := p.path(i)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return sumOfLink(target), i.Link != "" && target == i.Link, err
	case !info.Mode().IsRegular():
		return "", false, fmt.Errorf("%s is no file but a %v; remove it", path, info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(f, maxInstalled))
	switch {
	case err != nil:
		return "", false, err
	case n == maxInstalled:
		return "", false, fmt.Errorf("%s is larger than %d MiB: it is not what was installed here; remove it", path, maxInstalled>>20)
	}
	sum = hex.EncodeToString(hash.Sum(nil))
	return sum, i.Link == "" && sum == sumOf(i.Data) && info.Mode().Perm() == i.Mode && p.isSafe(info), nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func sumOfLink(target string) string { return "link to " + target }

// sum is what the record has of the item.
func (i Item) sum() string {
	if i.Link != "" {
		return sumOfLink(i.Link)
	}
	return sumOf(i.Data)
}

// place writes an item beside its place, checks it and renames it.
func (p Plan) place(ctx context.Context, i Item) error {
	path := p.path(i)
	fail := func(err error) error { return fmt.Errorf("%s was not replaced: %w", path, err) }
	p.between()
	temp, err := p.write(i)
	if err != nil {
		return fail(err)
	}
	p.between()
	if i.Check != nil {
		if err := i.Check(ctx, temp); err != nil {
			return fail(errors.Join(err, os.Remove(temp)))
		}
	}
	p.between()
	if err := os.Rename(temp, path); err != nil {
		return fail(errors.Join(err, os.Remove(temp)))
	}
	p.between()
	return syncDir(filepath.Dir(path))
}

// write writes an item under a name of its own into its directory.
func (p Plan) write(i Item) (temp string, err error) {
	temp = filepath.Join(p.dir(i.Dir), tempPrefix+i.Name+tempSuffix)
	if i.Link != "" {
		return temp, os.Symlink(i.Link, temp)
	}
	return temp, writeFile(temp, i.Data, i.Mode)
}

// writeFile writes a new file to the disk, or leaves none.
func writeFile(file string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(data))
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// syncDir makes a renaming outlive a loss of power.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
