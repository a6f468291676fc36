package azure

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// number is a number that is also taken from a string, as the metadata service writes it.
type number float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" || text == `""` {
		return nil
	}
	f, err := strconv.ParseFloat(strings.Trim(text, `"`), 64)
	if err != nil {
		return errors.New("it is no number")
	}
	*n = number(f)
	return nil
}

// tokenAnswer is what Entra ID and the metadata service answer with.
type tokenAnswer struct {
	AccessToken cloudauth.Secret `json:"access_token"`
	TokenType   string           `json:"token_type"`
	ExpiresIn   number           `json:"expires_in"`
	ExpiresOn   number           `json:"expires_on"`
}

// maxLife is how long a token may claim to live.
const maxLife = 365 * 24 * time.Hour

// parseToken reads a token. The time that is left counts, because it does not depend on the
// machine's clock being right.
func parseToken(where string, body []byte, now time.Time) (Token, error) {
	var a tokenAnswer
	err := json.Unmarshal(body, &a)
	value := a.AccessToken.Reveal()
	bad := func(r rune) bool { return r <= ' ' || r > '~' }
	if err != nil || value == "" || strings.ContainsFunc(value, bad) || a.TokenType != "" && !strings.EqualFold(a.TokenType, "Bearer") {
		return Token{}, cloudauth.NewError(cloudauth.Failed, "%s answers without a usable token; is a proxy or another service in between?", where)
	}
	life := float64(a.ExpiresIn)
	if life == 0 && a.ExpiresOn != 0 {
		life = float64(a.ExpiresOn) - float64(now.Unix())
	}
	if math.IsNaN(life) || life <= 0 || life > maxLife.Seconds() {
		return Token{}, cloudauth.NewError(cloudauth.Failed, "%s answers with a token that has expired or has no end; check the clock of the machine", where)
	}
	return Token{Value: a.AccessToken, Expires: now.Add(time.Duration(life * float64(time.Second)))}, nil
}

// failure is how both word an error.
type failure struct {
	Code        string   `json:"error"`
	Description string   `json:"error_description"`
	Codes       []number `json:"error_codes"`
}

// parseFailure reads an error. What is none says what the status means.
func parseFailure(r *Response) failure {
	var f failure
	if json.Unmarshal(r.Body, &f) != nil || f.Code == "" && f.Description == "" {
		f = failure{Code: http.StatusText(r.Status)}
	}
	return f
}

// said is the failure fit for an error: without the ids of the request, which make it long.
func (f failure) said(secrets ...cloudauth.Secret) string {
	text := f.Description
	for _, end := range []string{" Trace ID:", "\r\nTrace ID:", "\nTrace ID:"} {
		text, _, _ = strings.Cut(text, end)
	}
	if f.Code != "" && text != "" {
		text = f.Code + ": " + text
	}
	return cloudauth.Excerpt(cmp.Or(text, f.Code), 300, secrets...)
}
