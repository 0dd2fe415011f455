"""A variational autoencoder, in the style of torch's own examples."""
import torch
from rounds import rounds
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(196, 100)
        self.fc21 = nn.Linear(100, 8)
        self.fc22 = nn.Linear(100, 8)
        self.fc3 = nn.Linear(8, 100)
        self.fc4 = nn.Linear(100, 196)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 196))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 196), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def train(model, loader, optimizer, epoch):
    model.train()
    train_loss = 0
    for (data,) in loader:
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print(f"====> Epoch: {epoch} Average loss: {train_loss / len(loader.dataset):.1f}")


def main():
    torch.manual_seed(1)
    corners = torch.rand(6000, 4)
    grid = torch.linspace(0, 1, 14)
    pictures = ((grid > corners[:, 0:1] / 2).float()[:, :, None] * (grid < corners[:, 1:2] + 0.2).float()[:, None, :])
    loader = DataLoader(TensorDataset(pictures.unsqueeze(1)), batch_size=64, shuffle=True)
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for epoch in rounds(8):
        train(model, loader, optimizer, epoch)
    with torch.no_grad():
        picture = model.decode(torch.zeros(1, 8)).view(14, 14)
        print("\n".join("".join(" .+#"[min(3, int(value * 4))] for value in row) for row in picture[::4]))


if __name__ == "__main__":
    main()
