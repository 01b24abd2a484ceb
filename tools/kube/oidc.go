// oidc-provider FILE: an OpenID provider to try signing in with, of Zitadel's certified library and its example's storage.
// FILE is JSON: port, redirects (addresses of clients), users (name to password), groups (name to groups).
// Clients: paictl and other (public, PKCE and device codes; access tokens are JWTs) and brief (the same, but its tokens have expired).
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

type config struct {
	Port      int
	Redirects []string
	Users     map[string]string
	Groups    map[string][]string
}

type client struct{ op.Client }

func (c client) IDTokenUserinfoClaimsAssertion() bool { return true }
func (c client) AccessTokenType() op.AccessTokenType  { return op.AccessTokenTypeJWT }
func (c client) IsScopeAllowed(scope string) bool     { return scope == "groups" }
func (c client) DevMode() bool                        { return true }
func (c client) GrantTypes() []oidc.GrantType {
	return append(c.Client.GrantTypes(), oidc.GrantTypeDeviceCode)
}
func (c client) IDTokenLifetime() time.Duration {
	if c.GetID() == "brief" {
		return -time.Hour
	}
	return time.Hour
}

type store struct {
	*storage.Storage
	groups map[string][]string
}

func (s store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	found, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{found}, nil
}

func (s store) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, request op.IDTokenRequest, scopes []string) error {
	info.AppendClaims("groups", s.groups[request.GetSubject()])
	return s.Storage.SetUserinfoFromRequest(ctx, info, request, scopes)
}

func (s store) GetPrivateClaimsFromScopes(_ context.Context, user, _ string, _ []string) (map[string]any, error) {
	return map[string]any{"groups": s.groups[user], "preferred_username": user}, nil
}

type users map[string]*storage.User

func (u users) GetUserByID(id string) *storage.User         { return u[id] }
func (u users) GetUserByUsername(name string) *storage.User { return u[name] }
func (u users) ExampleClientID() string                     { return storage.ServiceUserID }

func main() {
	var read config
	data, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	known := users{}
	for name, password := range read.Users {
		known[name] = &storage.User{ID: name, Username: name, Password: password, Email: name + "@lab.example", EmailVerified: true}
	}
	for _, id := range []string{"paictl", "other", "brief"} {
		storage.RegisterClients(storage.NativeClient(id, read.Redirects...))
	}
	issuer := fmt.Sprintf("http://localhost:%d", read.Port)
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	router := exampleop.SetupServer(issuer, store{storage.NewStorage(known), read.Groups}, logger, false, op.WithAllowInsecure())
	if err := http.ListenAndServe(fmt.Sprintf("localhost:%d", read.Port), router); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
