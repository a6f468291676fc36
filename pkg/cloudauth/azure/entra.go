package azure

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// fromEntra gets a token of an application.
func (s *Session) fromEntra(ctx context.Context, now settings, w Wanted) (Token, error) {
	where := "Entra ID at " + s.authority
	address := "https://" + s.authority + "/" + url.PathEscape(now.tenant) + "/oauth2/v2.0/token"
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {now.client}, "scope": {w.Audience + "/.default"}}
	if w.Claims != "" {
		form.Set("claims", w.Claims)
	}
	secret, err := s.proof(now, address, form)
	if err != nil {
		return Token{}, misconfigured(err)
	}
	response, err := s.client.Do(ctx, Request{Where: where, URL: address, Form: form})
	if err != nil {
		return Token{}, err
	}
	if response.Status == http.StatusOK {
		return parseToken(where, response.Body, s.now())
	}
	f := parseFailure(response)
	return Token{}, response.Refusal(where, s.Who(), f.said(secret, cloudauth.NewSecret(url.QueryEscape(secret.Reveal()))), s.hint(f, w.Audience))
}

// proof adds to a request what proves the identity, and returns the secret in it.
func (s *Session) proof(now settings, address string, form url.Values) (cloudauth.Secret, error) {
	assertion := func(value cloudauth.Secret) (cloudauth.Secret, error) {
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", value.Reveal())
		return value, nil
	}
	switch {
	case !s.cfg.FederatedToken.IsEmpty():
		return assertion(s.cfg.FederatedToken)
	case s.kind == withToken:
		token, err := readSecret("the federated token", now.tokenFile)
		if err != nil {
			return cloudauth.Secret{}, err
		}
		return assertion(token)
	case s.kind == withCertificate:
		c, err := now.certificate()
		if err != nil {
			return cloudauth.Secret{}, err
		}
		signed, err := c.assertion(now.client, address, now.sendChain, s.now())
		if err != nil {
			return cloudauth.Secret{}, err
		}
		return assertion(signed)
	}
	secret := now.secret
	if now.secretFile != "" {
		var err error
		if secret, err = readSecret("clientSecretFile", now.secretFile); err != nil {
			return cloudauth.Secret{}, err
		}
	}
	form.Set("client_secret", secret.Reveal())
	return secret, nil
}

// hint says what to do about a refusal of Entra ID, by its code (AADSTS…).
func (s *Session) hint(f failure, audience string) string {
	code := 0
	if len(f.Codes) > 0 && f.Codes[0] > 0 && f.Codes[0] < 1e9 {
		code = int(f.Codes[0])
	}
	switch code {
	case 700016:
		return "the application is not in this tenant; check client id and tenant"
	case 90002, 900021, 900023, 50059:
		return "there is no such tenant in this cloud; check tenant id and cloud"
	case 7000215:
		return "the client secret is wrong (it has to be the secret's value, not its id)"
	case 7000222:
		return "the client secret has expired; make a new one"
	case 700027, 700021, 1000502:
		return "register this certificate with the application, or renew it if it has expired"
	case 70021, 700211, 700212, 700213:
		return "give the application a federated credential with the token's issuer, subject and audience (" + cmp.Or(s.cloud.ExchangeAudience, Public.ExchangeAudience) + ")"
	case 700024, 700022:
		return "the token or assertion has expired or is not valid yet; check the clock of the machine and who renews the token"
	case 700023, 50027, 5002730:
		return "the token or assertion is not what the application trusts; check the cluster's issuer and its keys"
	case 500011, 500014, 650057, 70011, 1002012:
		return "check that " + audience + " exists in this cloud and tenant"
	case 53003, 530035, 53000:
		return "a conditional access policy forbids it; allow the application or this network"
	case 7000112, 7000113:
		return "the application is disabled; enable it"
	}
	if code != 0 {
		return "see the Microsoft documentation of AADSTS" + strconv.Itoa(code)
	}
	return "check tenant, client id and cloud"
}
