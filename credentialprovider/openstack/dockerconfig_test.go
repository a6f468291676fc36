package openstack

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

func b64(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

func TestEntryFor(t *testing.T) {
	const many = `{"auths":{
		"https://index.docker.io/v1/": {"username":"hub","password":"p"},
		"r.example:5000": {"username":"root","password":"p"},
		"https://r.example:5000/v2/": {"username":"v2","password":"p"},
		"r.example:5000/team": {"username":"team","password":"p"},
		"r.example:5000/team/app": {"username":"app","password":"p"},
		"r.example": {"username":"noport","password":"p"},
		"*.Wild.example": {"username":"wild","password":"p"},
		"a.wild.example": {"username":"exact","password":"p"},
		"only.example/team": {"username":"only","password":"p"}
	}, "credsStore": "x", "HttpHeaders": {}}`
	for name, tt := range map[string]struct {
		payload, image  string
		user, password  string
		imageOnly       bool
		want, forbidden string // of the error
	}{
		"host with port":      {payload: many, image: "r.example:5000/other", user: "root", password: "p", imageOnly: true},
		"longest path":        {payload: many, image: "r.example:5000/team/app", user: "app", password: "p", imageOnly: true},
		"path":                {payload: many, image: "r.example:5000/team/app2", user: "team", password: "p", imageOnly: true},
		"not half a path":     {payload: many, image: "r.example:5000/teams/app", user: "root", password: "p", imageOnly: true},
		"without port":        {payload: many, image: "R.example/team", user: "noport", password: "p"},
		"docker hub":          {payload: many, image: "nginx", user: "hub", password: "p"},
		"wildcard":            {payload: many, image: "b.wild.example/x", user: "wild", password: "p"},
		"exact before wild":   {payload: many, image: "a.wild.example/x", user: "exact", password: "p"},
		"wildcard is a label": {payload: many, image: "a.b.wild.example/x", want: "no entry for a.b.wild.example/x"},
		"wildcard, port":      {payload: many, image: "b.wild.example:5000/x", want: "no entry for b.wild.example:5000/x"},
		"other port":          {payload: many, image: "r.example:5001/x", want: "no entry for r.example:5001/x", forbidden: "r.example:5000"},
		"other path":          {payload: many, image: "only.example/other", want: "no entry for only.example/other"},
		"auth":                {payload: `{"auths":{"r":{},"r.example":{"auth":"` + b64("u", "p:w") + `"}}}`, image: "r.example/x", user: "u", password: "p:w"},
		"auth before the two": {payload: `{"auths":{"r.example":{"username":"old","password":"old","auth":"` + b64("u", "p") + `"}}}`, image: "r.example/x", user: "u", password: "p"},
		"auth without padding and with a line end": {payload: `{"auths":{"r.example":{"auth":"` + strings.TrimRight(b64("u", "pw12"), "=") + `\n"}}}`, image: "r.example/x", user: "u", password: "pw12"},
		"auth for URLs":    {payload: `{"auths":{"r.example":{"auth":"dTo_Pz8-"}}}`, image: "r.example/x", user: "u", password: "???>"},
		"only a user":      {payload: `{"auths":{"r.example":{"username":"u"}}}`, image: "r.example/x", want: "neither auth nor username"},
		"auth no base64":   {payload: `{"auths":{"r.example":{"auth":"s3cret!"}}}`, image: "r.example/x", want: "not the base64 of user:password"},
		"auth no colon":    {payload: `{"auths":{"r.example":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("s3cret")) + `"}}}`, image: "r.example/x", want: "not the base64 of user:password"},
		"auth is cut":      {payload: `{"auths":{"r.example":{"auth":"` + b64("user", "s3cret") + `!x"}}}`, image: "r.example/x", want: "not the base64 of user:password"},
		"auth no password": {payload: `{"auths":{"r.example":{"auth":"` + b64("u", "") + `"}}}`, image: "r.example/x", want: "not the base64 of user:password"},
		"identity token":   {payload: `{"auths":{"r.example":{"identitytoken":"s3cret"}}}`, image: "r.example/x", want: "holds a token"},
		"nothing in it":    {payload: `{"auths":{"r.example":{}}}`, image: "r.example/x", want: "neither auth nor username"},
		"no auths":         {payload: `{"r.example":{"auth":"s3cret"}}`, image: "r.example/x", want: `no entry under "auths"`},
		"no JSON":          {payload: "s3cret", image: "r.example/x", want: "no dockerconfigjson"},
		"wrong type":       {payload: `{"auths":{"r.example":"s3cret"}}`, image: "r.example/x", want: "no dockerconfigjson"},
		"empty":            {payload: "", image: "r.example/x", want: "no dockerconfigjson"},
		"bad pattern":      {payload: `{"auths":{"*[.example":{"auth":"s3cret"}}}`, image: "r.example/x", want: "no entry"},
	} {
		t.Run(name, func(t *testing.T) {
			image, err := credentialprovider.ParseImage(tt.image)
			if err != nil {
				t.Fatal(err)
			}
			got, err := entryFor(cloudauth.NewSecret(tt.payload), image)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				if err != nil && (strings.Contains(err.Error(), "s3cret") || tt.forbidden != "" && strings.Contains(err.Error(), tt.forbidden)) {
					t.Errorf("the error tells too much: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Username != tt.user || got.Password.Reveal() != tt.password || got.ImageOnly != tt.imageOnly {
				t.Errorf("got %s, %q, image only %t; want %s, %q, %t", got.Username, got.Password.Reveal(), got.ImageOnly, tt.user, tt.password, tt.imageOnly)
			}
		})
	}
}

// FuzzDockerConfig checks that nothing panics, that no error repeats the payload's password,
// and that what comes out is never empty.
func FuzzDockerConfig(f *testing.F) {
	f.Add(`{"auths":{"r.example:5000/a":{"auth":"`+b64("u", "p")+`"}}}`, "r.example:5000/a/b")
	f.Add(`{"auths":{"*.example":{"username":"u","password":"p"}}}`, "r.example/a")
	f.Add(`{"auths":{"[::1]:5":{"identitytoken":"p"}}}`, "[::1]:5/a")
	f.Fuzz(func(t *testing.T, payload, reference string) {
		image, err := credentialprovider.ParseImage(reference)
		if err != nil {
			return
		}
		const secret = "fuzz-s3cret-value"
		got, err := entryFor(cloudauth.NewSecret(strings.ReplaceAll(payload, `"p"`, `"`+secret+`"`)), image)
		if err != nil {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the password: %v", err)
			}
			return
		}
		if got.Username == "" || got.Password.IsEmpty() {
			t.Errorf("empty credentials %q", got.Username)
		}
	})
}
